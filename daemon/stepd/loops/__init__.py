"""The loops beside the calls: each is a `run_once` under the one runner."""
