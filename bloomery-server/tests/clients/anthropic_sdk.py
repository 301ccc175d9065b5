"""The Anthropic SDK for Python against a running server."""

from __future__ import annotations

from functools import partial
from typing import Any

import anthropic
from anthropic import Anthropic

from harness import Server, Table, equal, raised

TABLE = Table("anthropic python")
STORY: list[Any] = [{"role": "user", "content": "Tell me a story about a fox."}]
# This SDK has no sampling parameters any more; servers of open models do.
GREEDY: dict[str, Any] = {"model": "any", "extra_body": {"temperature": 0}}
WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome", "Oslo"]}, "unit": {"enum": ["c", "f"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
}


def client(server: Server, **options: Any) -> Anthropic:
    """A client that reports every failure at once."""
    return Anthropic(**{"base_url": server.base, "api_key": server.key, "max_retries": 0, **options})


def text_of(message: Any) -> str:
    """The text blocks of a message."""
    return "".join(block.text for block in message.content if block.type == "text")


@TABLE.case("messages.create")
def _(server: Server) -> None:
    message = client(server).messages.create(messages=STORY, max_tokens=8, **GREEDY)
    equal(
        (message.type, message.role, message.stop_reason, message.stop_sequence),
        ("message", "assistant", "max_tokens", None),
    )
    equal((message.content[0].type, message.usage.output_tokens), ("text", 8))
    assert message.usage.input_tokens > 0 and text_of(message)


@TABLE.case("the key as a bearer token, and the beta path")
def _(server: Server) -> None:
    bearer = client(server, api_key=None, auth_token=server.key)
    message = bearer.beta.messages.create(messages=STORY, max_tokens=2, betas=["context-1m-2025-08-07"], **GREEDY)
    assert message.id.startswith("msg_"), message.id


@TABLE.case("messages.stream")
def _(server: Server) -> None:
    whole = client(server).messages.create(messages=STORY, max_tokens=24, **GREEDY)
    with client(server).messages.stream(messages=STORY, max_tokens=24, **GREEDY) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    equal("".join(pieces), text_of(whole))
    equal(text_of(final), text_of(whole))
    equal((final.stop_reason, final.usage.output_tokens), ("max_tokens", 24))


@TABLE.case("events of a stream are in order")
def _(server: Server) -> None:
    events = list(client(server).messages.create(messages=STORY, max_tokens=6, stream=True, **GREEDY))
    kinds = [event.type for event in events if event.type != "content_block_delta"]
    equal(kinds, ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
    start = events[0].message
    assert start.content == [] and start.usage.input_tokens + (start.usage.cache_read_input_tokens or 0) > 0


@TABLE.case("count_tokens counts the prompt of the same message")
def _(server: Server) -> None:
    parts: Any = {"model": "any", "system": "You are brief.", "messages": STORY, "tools": [WEATHER]}
    counted = client(server).messages.count_tokens(**parts)
    usage = client(server).messages.create(max_tokens=2, **parts).usage
    equal(counted.input_tokens, usage.input_tokens + (usage.cache_read_input_tokens or 0))


@TABLE.case("stream with a tool, get_final_message")
def _(server: Server) -> None:
    with client(server).messages.stream(
        messages=STORY,
        tools=[WEATHER],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        max_tokens=200,
        **GREEDY,
    ) as stream:
        indices = [event.index for event in stream if event.type == "content_block_start"]
        final = stream.get_final_message()
    equal(indices, list(range(len(final.content))))
    uses = [block for block in final.content if block.type == "tool_use"]
    assert uses and isinstance(uses[0].input, dict) and uses[0].input["city"] in ("Paris", "Rome", "Oslo")
    equal(final.stop_reason, "tool_use")


@TABLE.case("a tool call carried to its end")
def _(server: Server) -> None:
    messages: list[Any] = [{"role": "user", "content": "Is it warm in Paris?"}]
    only: Any = {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}
    first = client(server).messages.create(
        messages=messages, tools=[WEATHER], tool_choice=only, max_tokens=200, **GREEDY
    )
    (use,) = [block for block in first.content if block.type == "tool_use"]
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "21 degrees"}]},
    ]
    last = client(server).messages.create(
        messages=messages, tools=[WEATHER], tool_choice={"type": "none"}, max_tokens=12, **GREEDY
    )
    assert text_of(last) and all(block.type != "tool_use" for block in last.content)


@TABLE.case("stop_sequences")
def _(server: Server) -> None:
    text = text_of(client(server).messages.create(messages=STORY, max_tokens=24, **GREEDY))
    stop = text[10:13]
    cut = client(server).messages.create(messages=STORY, max_tokens=24, stop_sequences=[stop, "\u0000"], **GREEDY)
    equal((cut.stop_reason, cut.stop_sequence, text_of(cut)), ("stop_sequence", stop, text[: text.index(stop)]))
    with client(server).messages.stream(messages=STORY, max_tokens=24, stop_sequences=[stop], **GREEDY) as stream:
        equal(stream.get_final_message().stop_sequence, stop)


@TABLE.case("the thinking parameter")
def _(server: Server) -> None:
    kinds: list[Any] = [{"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}, {"type": "disabled"}]
    for thinking in kinds:
        message = client(server).messages.create(
            messages=STORY, max_tokens=8, thinking=thinking, metadata={"user_id": "u"}, **GREEDY
        )
        assert message.content


@TABLE.case("a system prompt comes from the cache the second time")
def _(server: Server) -> None:
    rules = " ".join(f"Rule {number} is to be kind." for number in range(40))
    system: Any = [{"type": "text", "text": rules, "cache_control": {"type": "ephemeral"}}]
    usages = [
        client(server)
        .messages.create(system=system, messages=[{"role": "user", "content": question}], max_tokens=2, **GREEDY)
        .usage
        for question in ("What is a fox?", "Where do owls live?")
    ]
    assert (usages[1].cache_read_input_tokens or 0) > 200, usages
    assert usages[1].input_tokens < usages[0].input_tokens + (usages[0].cache_read_input_tokens or 0), usages
    equal(usages[1].cache_creation_input_tokens, 0)


@TABLE.case("errors become the SDK's classes")
def _(server: Server) -> None:
    wrong = client(server, api_key="wrong").messages.create
    raised(anthropic.AuthenticationError, lambda: wrong(messages=STORY, max_tokens=2, **GREEDY))
    long: Any = [{"role": "user", "content": "word " * 20_000}]
    create = client(server).messages.create
    for stream in (False, True):
        error = raised(anthropic.BadRequestError, partial(create, messages=long, max_tokens=2, stream=stream, **GREEDY))
        for phrase in ("prompt is too long", "exceeds the available context size"):
            assert phrase in str(error), error
        equal(error.body["type"], "error")
    bad: Any = [{"role": "user", "content": 5}]
    raised(anthropic.BadRequestError, partial(create, messages=bad, max_tokens=2, **GREEDY))


@TABLE.case("a client that goes away frees its slot")
def _(server: Server) -> None:
    server.wait_until_idle()
    stream = client(server).messages.create(
        model="any", messages=STORY, max_tokens=1900, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    server.wait_until_idle()


if __name__ == "__main__":
    TABLE.main()
