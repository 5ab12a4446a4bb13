"""OpenAI's own client against a model of texts: both formats, texts and ids, dimensions, errors, the list of models."""
import numpy as np
import openai


def check(address, model, texts):
    """Raises unless each call answers as it must; returns the number of calls."""
    client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0)
    vectors = {}
    for format in ("float", "base64", openai.NOT_GIVEN):  # the client decodes base 64 only if nobody asked for it
        answer = client.embeddings.create(model=model, input=texts, encoding_format=format)
        assert [d.index for d in answer.data] == list(range(len(texts))) and answer.usage.total_tokens == answer.usage.prompt_tokens > 0
        if format != "base64":
            vectors[str(format)] = np.array([d.embedding for d in answer.data], "f4")
    first, second = vectors.values()
    assert first.shape == second.shape and np.array_equal(first, second), "the formats differ"
    short = client.embeddings.create(model=model, input=texts[0], dimensions=8).data[0].embedding
    assert len(short) == 8 and abs(np.corrcoef(short, first[0, :8])[0, 1] - 1) < 1e-5
    assert len(client.embeddings.create(model=model, input=[[5, 6, 7], [8]]).data) == 2
    assert model in [m.id for m in client.models.list()] and client.models.retrieve(model).id == model
    for wanted, arguments in ((openai.NotFoundError, {"model": "nobody", "input": "x"}), (openai.BadRequestError, {"model": model, "input": []}),
                              (openai.BadRequestError, {"model": model, "input": "x", "extra_body": {"prompt_name": "nobody"}})):
        try:
            client.embeddings.create(**arguments)
        except wanted as e:
            assert e.type == "invalid_request_error" and e.code, e
        else:
            raise AssertionError(f"{arguments} is answered")
    return 12
