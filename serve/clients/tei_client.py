"""huggingface_hub's InferenceClient, which is made for text-embeddings-inference, against the server's endpoints of it."""
import huggingface_hub
import numpy as np
from huggingface_hub.errors import HfHubHTTPError


def check(address, texts):
    """Raises unless each call answers as it must. The server has one model of texts."""
    vectors = {}
    for url in (f"http://{address}", f"http://{address}/embed"):
        client = huggingface_hub.InferenceClient(model=url)
        vectors[url] = client.feature_extraction(texts, normalize=True, truncate=True)
        assert len(vectors[url]) == len(texts) and np.allclose(np.linalg.norm(vectors[url], axis=1), 1, atol=1e-5)
        assert np.allclose(client.feature_extraction(texts[0]), vectors[url][:1], atol=1e-5)
    first, second = vectors.values()
    assert np.array_equal(first, second), "the paths differ"
    client = huggingface_hub.InferenceClient(model=f"http://{address}/similarity")
    assert np.allclose(client.sentence_similarity(texts[0], other_sentences=texts[1:]), first[1:] @ first[0], atol=1e-5)
    client = huggingface_hub.InferenceClient(model=f"http://{address}/embed")
    for wanted, arguments in ((400, {"text": []}), (422, {"text": texts, "prompt_name": "nobody"}),
                              (422, {"text": "many words " * 999, "truncate": False})):
        try:
            client.feature_extraction(**arguments)
        except HfHubHTTPError as e:
            assert e.response.status_code == wanted, e
        else:
            raise AssertionError(f"{arguments} is answered")
