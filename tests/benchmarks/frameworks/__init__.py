"""What Haystack, LlamaIndex and LangChain can do of the stage's job: hits to the bytes of five blocks.

None has a part that caps chunks by document, cuts to budgets or keeps a ledger, so none does that here.
Each is there in two forms, made before they are timed. `whole` is as its documentation puts it together: a
retriever for each path, and the library's own way of running them. `by_hand` takes its objects and functions
without that, which costs less. JSON is written by orjson for all, out of the library's own dictionaries.
"""
