"""The smallest worker: one workflow of one step, which greets.

Start the daemon with `stepd serve`, this with `python examples/hello/worker.py`, and an execution with
`stepd start hello --input '{"name": "Ada"}' --wait`.
"""

from typing import Any

from stepd_worker import Context, Worker, Workflow, cel

hello = Workflow("hello", output=cel("steps.greet.output"))


@hello.step(effect="read_only")
async def greet(ctx: Context, input: Any) -> dict[str, str]:
    return {"greeting": f"Hello, {input['name']}!"}


if __name__ == "__main__":
    Worker().register(hello).serve()
