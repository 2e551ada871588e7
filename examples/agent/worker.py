"""An agent that loops: a turn is a model call and perhaps a tool call, again until it is done or out of rounds.

Run `python -m stepd_worker serve examples.agent.worker:turn examples.agent.worker:agent`, then
`stepd start agent --input '{"task": "add 2 3"}' --correlation talk-1 --wait`. A task that begins with `delete` asks for
a tool that changes something, and that waits for
`stepd publish approval --correlation talk-1 --payload '{"approved": true}'`. The model is a stand-in, so that it runs
anywhere; with `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `AGENT_MODEL` it is a real one. Either way its calls show in the
execution's trace, and their tokens are counted: a talk that has used up its budget is paused before its next turn,
until `stepd resume ID --budget-tokens …` raises it.
"""

import json
from typing import Any

from opentelemetry import trace

from examples.agent.model import ask
from examples.agent.standin import Message
from stepd_worker import Context, Repeat, Rule, Workflow, cel

ROUNDS_MAX = 8
TOKENS_MAX = 100_000
DANGEROUS = frozenset({"delete"})

tracer = trace.get_tracer("examples.agent")

turn = Workflow(
    "agent-turn",
    output={
        "messages": cel("steps.act.status == 'succeeded' ? steps.act.output : steps.think.output.messages"),
        "answer": cel("steps.think.output.answer"),
        "done": cel("steps.think.output.answer != null"),
    },
)


@turn.step(effect="read_only", lease_seconds=120)
def think(ctx: Context, input: Any) -> dict[str, Any]:
    """Asks the model what to do next: a tool, or an answer."""
    messages: list[Message] = input["messages"]
    reply = ask(messages)
    calls = reply.get("tool_calls", [])
    return {
        "messages": [*messages, reply],
        "calls": calls,
        "answer": None if calls else reply["content"],
        "dangerous": any(call["function"]["name"] in DANGEROUS for call in calls),
    }


# The child has its parent's correlation, so that an event finds it without anybody knowing its id.
turn.wait("approved", event="approval", timeout_seconds=3_600, on_timeout="skip", when="steps.think.output.dangerous")

turn.decision(
    "may_act",
    needs=["think", "approved"],
    rules=[
        Rule(id="nothing-to-do", when="steps.think.output.calls.size() == 0", then="no"),
        Rule(id="harmless", when="!steps.think.output.dangerous", then="yes"),
        Rule(id="approved", when="steps.approved.output != null && steps.approved.output.approved", then="yes"),
    ],
    default="refused",
)


@turn.step(effect="idempotent_write", when="steps.may_act.output != 'no'")
def act(ctx: Context, input: Any, steps: Any) -> list[Message]:
    """Calls the tools, and tells the model what came of it. A tool knows the key, so that it may be called again."""
    thought, allowed = steps.think.output, steps.may_act.output == "yes"
    results = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": use_tool(call["function"], ctx.idempotency_key) if allowed else "A person refused it",
        }
        for call in thought["calls"]
    ]
    return [*thought["messages"], *results]


agent = Workflow("agent", output=cel("steps.talk.output.answer"), budget={"tokens": TOKENS_MAX})
agent.workflow(
    "talk",
    workflow=turn,
    input={"messages": [{"role": "user", "content": cel("input.task")}]},
    repeat=Repeat(until="last.done", max=ROUNDS_MAX, next={"messages": cel("last.messages")}),
    catch={"repeat_limit": {"answer": "I gave up"}},
)


def use_tool(function: dict[str, str], key: str) -> str:
    """Stands for the tools."""
    name, arguments = function["name"], json.loads(function["arguments"])
    with tracer.start_as_current_span(f"execute_tool {name}", attributes={"gen_ai.tool.name": name}):
        return str(arguments["a"] + arguments["b"]) if name == "add" else f"{arguments['what']} is deleted"
