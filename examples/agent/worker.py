"""An agent that loops: a turn is a model call and perhaps a tool call, again until it is done or out of rounds.

Run `python -m stepd_worker serve examples.agent.worker:turn examples.agent.worker:agent`, then
`stepd start agent --input '{"task": "add 2 3"}' --correlation talk-1 --wait`. A task that begins with `delete` asks for
a tool that changes something, and that waits for
`stepd publish approval --correlation talk-1 --payload '{"approved": true}'`. The model is a few lines here, so that it
runs anywhere; its tokens are counted all the same.
"""

from typing import Any

from stepd_worker import Context, Repeat, Rule, Workflow, cel

ROUNDS_MAX = 8

Message = dict[str, Any]

turn = Workflow(
    "agent-turn",
    output={
        "messages": cel("steps.act.status == 'succeeded' ? steps.act.output : steps.think.output.messages"),
        "answer": cel("steps.think.output.answer"),
        "done": cel("steps.think.output.answer != null"),
    },
)


@turn.step(effect="read_only", lease_seconds=120)
async def think(ctx: Context, input: Any) -> dict[str, Any]:
    """Asks the model what to do next: a tool, or an answer."""
    messages: list[Message] = input["messages"]
    with ctx.span("model call", kind="client") as span:
        reply = model(messages)
        span.usage(model="example-1", input_tokens=sum(len(str(m)) for m in messages), output_tokens=len(str(reply)))
    return {
        "messages": [*messages, {"role": "model", **reply}],
        "tool": None,
        "answer": None,
        "dangerous": False,
    } | reply


# The child has its parent's correlation, so that an event finds it without anybody knowing its id.
turn.wait("approved", event="approval", timeout_seconds=3_600, on_timeout="skip", when="steps.think.output.dangerous")

turn.decision(
    "may_act",
    needs=["think", "approved"],
    rules=[
        Rule(id="nothing-to-do", when="steps.think.output.tool == null", then="no"),
        Rule(id="harmless", when="!steps.think.output.dangerous", then="yes"),
        Rule(id="approved", when="steps.approved.output != null && steps.approved.output.approved", then="yes"),
    ],
    default="refused",
)


@turn.step(effect="idempotent_write", when="steps.may_act.output != 'no'")
def act(ctx: Context, input: Any, steps: Any) -> list[Message]:
    """Calls the tool, and tells the model what came of it. The tool knows the key, so that it may be called again."""
    thought = steps.think.output
    result = (
        "A person refused it" if steps.may_act.output == "refused" else use_tool(thought["tool"], ctx.idempotency_key)
    )
    return [*thought["messages"], {"role": "tool", "result": result}]


agent = Workflow("agent", output=cel("steps.talk.output.answer"))
agent.workflow(
    "talk",
    workflow=turn,
    input={"messages": [{"role": "user", "task": cel("input.task")}]},
    repeat=Repeat(until="last.done", max=ROUNDS_MAX, next={"messages": cel("last.messages")}),
    catch={"repeat_limit": {"answer": "I gave up"}},
)


def model(messages: list[Message]) -> dict[str, Any]:
    """Stands for a model: it does sums step by step, and wants to delete what it is told to."""
    words = messages[0]["task"].split()
    results = [message["result"] for message in messages if message["role"] == "tool"]
    if words[0] == "delete" and not results:
        return {"tool": {"name": "delete", "what": words[1]}, "dangerous": True}
    if words[0] == "add" and len(results) < len(words) - 1:
        so_far = results[-1] if results else 0
        return {"tool": {"name": "add", "a": so_far, "b": int(words[len(results) + 1])}}
    if words[0] == "wander":
        return {"tool": {"name": "add", "a": 1, "b": 1}}
    return {"answer": results[-1] if results else "nothing to do"}


def use_tool(tool: dict[str, Any], key: str) -> Any:
    """Stands for the tools."""
    return tool["a"] + tool["b"] if tool["name"] == "add" else f"{tool['what']} is deleted"
