"""What transformers and peft make of folders:  hub.py < [{"model": folder, "adapter": folder or null, "ids": [[…], …], "text": "…"}, …]

Prints, for each request, {"logits": the last logits after each of `ids`, "dtype": of the weights, "ids": of the text with the model's own
tokens around it, "chat": the prompt of one user message}. Weights are computed in float32.
"""
import json
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
results = []
for request in json.load(sys.stdin):
    model = AutoModelForCausalLM.from_pretrained(request["model"], dtype="auto", attn_implementation="eager")
    dtype = str(model.dtype).removeprefix("torch.")
    model = model.float()
    if request["adapter"]:
        model = PeftModel.from_pretrained(model, request["adapter"])
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(request["model"])
    with torch.no_grad():
        logits = [model(torch.tensor([ids])).logits[0, -1].tolist() for ids in request["ids"]]
    chat = tokenizer.apply_chat_template([{"role": "user", "content": request["text"]}], tokenize=False, add_generation_prompt=True)
    results.append({"logits": logits, "dtype": dtype, "ids": tokenizer(request["text"])["input_ids"], "chat": chat})
print(json.dumps(results))
