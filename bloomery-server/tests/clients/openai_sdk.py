"""The OpenAI SDK for Python against a running server."""

from __future__ import annotations

import asyncio
import json
from enum import Enum
from functools import partial
from typing import Any, Literal

import httpx2
import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from harness import Server, Table, equal, raised

TABLE = Table("openai python")
STORY: list[Any] = [{"role": "user", "content": "Tell me a story about a fox."}]
PROMPT = "Once upon a time"
# The SDK asks for a name; a server of one model takes any.
GREEDY: dict[str, Any] = {"model": "any", "temperature": 0, "seed": 7}


class Weather(BaseModel):
    """Asks for the weather of a city."""

    city: Literal["Paris", "Rome", "Oslo"]
    unit: Literal["c", "f"]


class Colour(str, Enum):
    """Becomes a definition that the schema refers to."""

    RED = "red"
    GREY = "grey"


class Fox(BaseModel):
    """A structured answer."""

    name: Literal["Bo", "Ada"]
    colour: Colour
    friends: list[Literal["wolf", "hare"]] | None
    tame: bool


WEATHER = openai.pydantic_function_tool(Weather, name="get_weather")


def client(server: Server, **options: Any) -> OpenAI:
    """A client that reports every failure at once."""
    return OpenAI(**{"base_url": f"{server.base}/v1", "api_key": server.key, "max_retries": 0, **options})


def deltas(stream: Any) -> list[Any]:
    """The deltas of a chat stream."""
    return [choice.delta for chunk in stream for choice in chunk.choices]


@TABLE.case("models.list")
def _(server: Server) -> None:
    models = list(client(server).models.list())
    equal([model.object for model in models], ["model"])
    assert models[0].model_dump()["meta"]["n_ctx_train"] > 0
    equal(client(server).models.retrieve(models[0].id).id, models[0].id)


@TABLE.case("the bare root as base URL")
def _(server: Server) -> None:
    answer = client(server, base_url=server.base).chat.completions.create(messages=STORY, max_tokens=4, **GREEDY)
    equal(len(answer.choices), 1)


@TABLE.case("chat create")
def _(server: Server) -> None:
    answer = client(server).chat.completions.create(messages=STORY, max_tokens=8, **GREEDY)
    equal((answer.choices[0].finish_reason, answer.choices[0].message.role), ("length", "assistant"))
    assert answer.usage and answer.choices[0].message.content
    equal(answer.usage.completion_tokens, 8)
    equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 8)
    equal(answer.choices[0].message.tool_calls, None)


@TABLE.case("chat stream")
def _(server: Server) -> None:
    whole = client(server).chat.completions.create(messages=STORY, max_tokens=24, **GREEDY)
    stream = client(server).chat.completions.create(
        messages=STORY, max_tokens=24, stream=True, stream_options={"include_usage": True}, **GREEDY
    )
    chunks = list(stream)
    equal(len({chunk.id for chunk in chunks}), 1)
    equal(chunks[0].choices[0].delta.role, "assistant")
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    equal(text, whole.choices[0].message.content)
    equal([chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1], "length")
    equal((chunks[-1].choices, chunks[-1].usage and chunks[-1].usage.completion_tokens), ([], 24))


@TABLE.case("no usage chunk unless it is asked for")
def _(server: Server) -> None:
    stream = client(server).chat.completions.create(messages=STORY, max_tokens=4, stream=True, **GREEDY)
    assert all(chunk.choices and chunk.usage is None for chunk in stream)


@TABLE.case("stream helper with tools")
def _(server: Server) -> None:
    with client(server).chat.completions.stream(
        messages=STORY, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=200, **GREEDY
    ) as stream:
        kinds = {event.type for event in stream}
        choice = stream.get_final_completion().choices[0]
    assert "tool_calls.function.arguments.done" in kinds, kinds
    equal(choice.finish_reason, "tool_calls")
    calls = choice.message.tool_calls or []
    equal([call.function.name for call in calls], ["get_weather"] * len(calls))
    assert calls and isinstance(calls[0].function.parsed_arguments, Weather)


@TABLE.case("one delta of a call names it, the rest are arguments")
def _(server: Server) -> None:
    stream = client(server).chat.completions.create(
        messages=STORY,
        tools=[WEATHER],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=200,
        stream=True,
        **GREEDY,
    )
    calls = [call for delta in deltas(stream) for call in delta.tool_calls or []]
    equal({call.index for call in calls}, {0})
    assert calls[0].id and calls[0].type == "function" and calls[0].function.name == "get_weather"
    assert all(call.id is None and call.function.name is None for call in calls[1:])
    assert len(calls) > 2, "the arguments came all at once"
    Weather.model_validate_json("".join(call.function.arguments or "" for call in calls))


@TABLE.case("parse() with a Pydantic model")
def _(server: Server) -> None:
    answer = client(server).chat.completions.parse(messages=STORY, response_format=Fox, max_tokens=300, **GREEDY)
    equal(answer.choices[0].finish_reason, "stop")
    assert isinstance(answer.choices[0].message.parsed, Fox)


@TABLE.case("parse() says when the budget cut the answer")
def _(server: Server) -> None:
    chat = client(server).chat.completions
    raised(
        openai.LengthFinishReasonError,
        lambda: chat.parse(messages=STORY, response_format=Fox, max_tokens=2, **GREEDY),
    )


@TABLE.case("logprobs")
def _(server: Server) -> None:
    settings = {"messages": STORY, "max_tokens": 6, "logprobs": True, "top_logprobs": 10, **GREEDY}
    whole = client(server).chat.completions.create(**settings).choices[0]
    entries = (whole.logprobs and whole.logprobs.content) or []
    equal("".join(entry.token for entry in entries), whole.message.content)
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 10 for entry in entries)
    assert all(entry.bytes == list(entry.token.encode()) for entry in entries)
    streamed = [
        entry.logprob
        for chunk in client(server).chat.completions.create(stream=True, **settings)
        for choice in chunk.choices
        if choice.logprobs
        for entry in choice.logprobs.content or []
    ]
    equal(len(streamed), 6)
    # The prompt may come from the cache the second time, in other pieces: the sums differ in their last digits.
    assert all(abs(a - b.logprob) < 1e-3 for a, b in zip(streamed, entries, strict=True)), (streamed, entries)


@TABLE.case("n=2")
def _(server: Server) -> None:
    answer = client(server).chat.completions.create(
        model="any", messages=STORY, max_tokens=12, n=2, temperature=1.5, seed=3
    )
    equal([choice.index for choice in answer.choices], [0, 1])
    assert answer.choices[0].message.content != answer.choices[1].message.content
    equal(answer.usage and answer.usage.completion_tokens, 24)
    stream = client(server).chat.completions.create(model="any", messages=STORY, max_tokens=4, n=2, stream=True)
    ends = [choice.index for chunk in stream for choice in chunk.choices if choice.finish_reason]
    equal(sorted(ends), [0, 1])


@TABLE.case("stop")
def _(server: Server) -> None:
    whole = client(server).chat.completions.create(messages=STORY, max_tokens=24, **GREEDY)
    text = whole.choices[0].message.content or ""
    stop = text[10:13]
    cut = client(server).chat.completions.create(messages=STORY, max_tokens=24, stop=stop, **GREEDY).choices[0]
    equal((cut.message.content, cut.finish_reason), (text[: text.index(stop)], "stop"))


@TABLE.case("completions create and stream")
def _(server: Server) -> None:
    whole = client(server).completions.create(prompt=PROMPT, max_tokens=8, **GREEDY)
    equal((whole.choices[0].finish_reason, whole.object), ("length", "text_completion"))
    chunks = list(client(server).completions.create(prompt=PROMPT, max_tokens=8, stream=True, **GREEDY))
    equal("".join(chunk.choices[0].text for chunk in chunks), whole.choices[0].text)
    equal(chunks[-1].choices[0].finish_reason, "length")
    several = client(server).completions.create(prompt=[PROMPT, "The fox"], max_tokens=3, **GREEDY)
    equal([choice.index for choice in several.choices], [0, 1])


@TABLE.case("completions stream with two stops")
def _(server: Server) -> None:
    whole = client(server).completions.create(prompt=PROMPT, max_tokens=60, **GREEDY).choices[0].text
    stops = [whole[40:44], whole[25:29]]
    chunks = list(client(server).completions.create(prompt=PROMPT, max_tokens=60, stream=True, stop=stops, **GREEDY))
    text = "".join(chunk.choices[0].text for chunk in chunks)
    equal(text, whole[: min(whole.index(stop) for stop in stops)])
    equal(chunks[-1].choices[0].finish_reason, "stop")


@TABLE.case("embeddings of a server without them")
def _(server: Server) -> None:
    error = raised(openai.APIStatusError, lambda: client(server).embeddings.create(model="any", input="hello"))
    equal((error.status_code, error.type), (501, "not_supported_error"))


@TABLE.case("responses create")
def _(server: Server) -> None:
    items: Any = [{"role": "system", "content": "You are brief."}, *STORY]
    answer = client(server).responses.create(model="any", input=items, max_output_tokens=8, temperature=0)
    assert answer.id.startswith("resp_") and (answer.output[0].id or "").startswith("msg_"), answer
    assert answer.output_text and answer.usage
    equal(answer.usage.output_tokens, 8)
    equal(answer.incomplete_details and answer.incomplete_details.reason, "max_output_tokens")


@TABLE.case("responses stream keeps its ids")
def _(server: Server) -> None:
    stream = client(server).responses.create(
        model="any", input="Tell me a story.", max_output_tokens=12, temperature=0, stream=True
    )
    events = list(stream)
    equal(len({event.response.id for event in events if hasattr(event, "response")}), 1)
    ids = {event.item_id for event in events if hasattr(event, "item_id")}
    ids |= {event.item.id for event in events if hasattr(event, "item")}
    equal(len(ids), 1)
    final = next(event.response for event in events if event.type in ("response.completed", "response.incomplete"))
    equal(final.output[0].id, ids.pop())
    equal("".join(event.delta for event in events if event.type == "response.output_text.delta"), final.output_text)
    numbers = [event.sequence_number for event in events]
    equal(numbers, sorted(set(numbers)))


@TABLE.case("responses stream helper with a tool")
def _(server: Server) -> None:
    tool: Any = {"type": "function", "strict": True, "name": "get_weather", "parameters": Weather.model_json_schema()}
    with client(server).responses.stream(
        model="any",
        input="Weather?",
        tools=[tool, {"type": "web_search"}],
        tool_choice="required",
        temperature=0,
        max_output_tokens=200,
    ) as stream:
        for _event in stream:
            pass
        calls = [item for item in stream.get_final_response().output if item.type == "function_call"]
    Weather.model_validate_json(calls[0].arguments)
    answer = client(server).responses.create(
        model="any",
        max_output_tokens=8,
        temperature=0,
        input=[
            {"role": "user", "content": "Weather?"},
            {
                "type": "function_call",
                "call_id": calls[0].call_id,
                "name": "get_weather",
                "arguments": calls[0].arguments,
            },
            {"type": "function_call_output", "call_id": calls[0].call_id, "output": "sunny"},
        ],
    )
    assert answer.output_text


@TABLE.case("a wrong key")
def _(server: Server) -> None:
    wrong = client(server, api_key="wrong")
    error = raised(openai.AuthenticationError, lambda: wrong.chat.completions.create(messages=STORY, **GREEDY))
    equal((error.status_code, error.type), (401, "authentication_error"))
    raised(openai.AuthenticationError, lambda: list(wrong.models.list()))


@TABLE.case("a prompt that is too long, without retries")
def _(server: Server) -> None:
    sent: list[httpx2.Request] = []
    counted = httpx2.Client(event_hooks={"request": [sent.append]})
    long: Any = [{"role": "user", "content": "word " * 20_000}]
    chat = client(server, http_client=counted, max_retries=2).chat.completions
    for stream in (False, True):
        send = partial(chat.create, messages=long, stream=stream, **GREEDY)
        error = raised(openai.BadRequestError, send)
        assert "exceeds the available context size" in error.message, error.message
        equal(error.type, "exceed_context_size_error")
        assert error.body["n_prompt_tokens"] > error.body["n_ctx"] > 0
    equal(len(sent), 2)


@TABLE.case("a schema that is none")
def _(server: Server) -> None:
    for schema in ({"type": "hiccup"}, 123):
        wanted: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        send = partial(client(server).chat.completions.create, messages=STORY, response_format=wanted, **GREEDY)
        error = raised(openai.BadRequestError, send)
        equal(error.type, "invalid_request_error")


async def _joined(chat: AsyncOpenAI, prompt: str) -> str:
    stream = await chat.chat.completions.create(
        messages=[{"role": "user", "content": prompt}], max_tokens=40, stream=True, **GREEDY
    )
    return "".join([choice.delta.content or "" async for chunk in stream for choice in chunk.choices])


async def _sixteen(server: Server, prompts: list[str]) -> list[str]:
    options: Any = {"base_url": f"{server.base}/v1", "api_key": server.key, "max_retries": 0}
    async with AsyncOpenAI(**options) as chat:
        return await asyncio.gather(*(_joined(chat, prompt) for prompt in prompts))


@TABLE.case("sixteen streams at once say what each says alone")
def _(server: Server) -> None:
    animals = ["fox", "wolf", "hare", "bear", "cat", "dog", "owl", "hen"]
    prompts = [f"Tell me a {kind} story about a {animal}." for animal in animals for kind in ("short", "sad")]
    together = asyncio.run(_sixteen(server, prompts))
    for prompt, text in list(zip(prompts, together, strict=True))[::5]:
        equal(text, asyncio.run(_sixteen(server, [prompt]))[0])
    assert all(together)


@TABLE.case("a client that goes away frees its slot")
def _(server: Server) -> None:
    server.wait_until_idle()
    before = server.metric("tokens_predicted_total")
    stream = client(server).chat.completions.create(
        messages=STORY, max_tokens=1900, stream=True, extra_body={"ignore_eos": True}, **GREEDY
    )
    for _chunk, _ in zip(stream, range(5), strict=False):
        pass
    stream.close()
    server.wait_until_idle()
    generated = server.metric("tokens_predicted_total") - before
    assert generated < 1900, f"{generated} tokens for a client that had left"


@TABLE.case("a tool call carried to its end")
def _(server: Server) -> None:
    chat = client(server).chat.completions
    messages: list[Any] = [{"role": "user", "content": "Is it warm in Paris?"}]
    named: Any = {"type": "function", "function": {"name": "get_weather"}}
    first = chat.create(
        messages=messages, tools=[WEATHER], tool_choice=named, parallel_tool_calls=False, max_tokens=200, **GREEDY
    ).choices[0]
    equal(first.finish_reason, "tool_calls")
    (call,) = first.message.tool_calls or []
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome", "Oslo")
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": '{"celsius": 21}'}]
    last = chat.create(messages=messages, tools=[WEATHER], tool_choice="none", max_tokens=12, **GREEDY).choices[0]
    assert last.message.content and not last.message.tool_calls


@TABLE.case("a tool choice that names no tool")
def _(server: Server) -> None:
    named: Any = {"type": "function", "function": {"name": "no_such_tool"}}
    chat = client(server).chat.completions
    raised(openai.BadRequestError, lambda: chat.create(messages=STORY, tools=[WEATHER], tool_choice=named, **GREEDY))


if __name__ == "__main__":
    TABLE.main()
