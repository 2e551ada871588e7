"""The examination behind `stepd doctor`: settings, the store, the daemon that runs, and what waits for somebody."""
