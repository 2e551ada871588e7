"""A pipeline of documents: pages are read side by side, and what a machine is not sure of a person looks at.

Run `python -m stepd_worker serve examples.documents.worker:documents`, then
`stepd start documents --input '{"name": "d-1", "text": "total 12\\fsmudged"}' --correlation d-1`. Page breaks are form
feeds; a page that says `smudged` is unsure, and waits for
`stepd publish review --correlation d-1 --payload '{"by": "ann", "accept": true}'`.
"""

from typing import Any

import msgspec

from stepd_worker import Context, Rule, StepFailed, Workflow, cel

PAGES_AT_ONCE = 8


class Document(msgspec.Struct):
    """What an execution is asked for."""

    name: str
    text: str


class Review(msgspec.Struct):
    """What a person says of it."""

    by: str
    accept: bool


documents = Workflow(
    "documents",
    input_schema=Document,
    # What is in the archive may stay there.
    on_failure="fail",
    updates={"/reviewed_by": cel("steps.review.output == null ? 'nobody' : steps.review.output.by")},
    output=cel("steps.archive.output"),
)


@documents.step(effect="read_only")
def split(ctx: Context, document: Document) -> dict[str, Any]:
    """Cuts the document into pages."""
    return {"pages": document.text.split("\f")}


@documents.step(
    effect="read_only",
    foreach="steps.split.output.pages",
    max_parallel=PAGES_AT_ONCE,
    input={"page": cel("index"), "text": cel("item")},
    catch={"unreadable": {"words": 0, "sure": False}},
)
def read(ctx: Context, page: dict[str, Any]) -> dict[str, Any]:
    """Reads one page; where a model would be asked, it counts words."""
    if not page["text"].strip():
        raise StepFailed("unreadable", f"Page {page['page']} is blank")
    return {"words": len(page["text"].split()), "sure": "smudged" not in page["text"]}


documents.decision(
    "judge",
    rules=[
        Rule(id="all-sure", when="steps.read.output.all(page, page.sure)", then="archive"),
        Rule(id="too-bad", when="steps.read.output.filter(page, !page.sure).size() > 3", then="reject"),
    ],
    default="review",
)

documents.wait(
    "review",
    event="review",
    payload_schema=Review,
    timeout_seconds=7 * 86_400,
    when="steps.judge.output == 'review'",
)


@documents.step(
    effect="idempotent_write",
    needs=["judge", "review"],
    when="steps.judge.output == 'archive' || (steps.judge.output == 'review' && steps.review.output.accept)",
)
def archive(ctx: Context, document: Document, steps: Any) -> dict[str, Any]:
    """Files it under its name; said twice, it is filed once."""
    return {"filed": document.name, "words": sum(page["words"] for page in steps.read.output)}
