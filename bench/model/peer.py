"""The peer of bench/model: the same decoder in PyTorch, written plainly, and in transformers, driven over standard input.

One request per line, one answer per line: `train STEPS`, `generate ROWS PROMPT TOKENS` (the plain one) and `transformers ROWS PROMPT TOKENS`
(LlamaForCausalLM.generate) answer the seconds they took, on the clock and of the CPU; `info` answers versions. Everything is set up before
`ready`.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
import transformers

config = json.loads(sys.argv[1])
torch.set_num_threads(config["threads"])
torch.manual_seed(0)
V, d, L, H, K, f = (config[k] for k in ("vocabulary", "hidden", "layers", "heads", "kvHeads", "intermediate"))
hd = d // H


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.RMSNorm(d, eps=1e-6)
        self.qkv = nn.Linear(d, (H + 2 * K) * hd, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.mlp_norm = nn.RMSNorm(d, eps=1e-6)
        self.up = nn.Linear(d, 2 * f, bias=False)
        self.down = nn.Linear(f, d, bias=False)

    def forward(self, x, cos, sin, cache=None):
        B, T, _ = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(B, T, H + 2 * K, hd).transpose(1, 2).split((H, K, K), dim=1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
            cache[:] = (k, v)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1, enable_gqa=H != K)
        x = x + self.out(o.transpose(1, 2).reshape(B, T, d))
        gate, up = self.up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.embedding = nn.Embedding(V, d)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(L))
        self.norm = nn.RMSNorm(d, eps=1e-6)
        angle = torch.outer(torch.arange(longest, dtype=torch.float64), 10_000.0 ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd))
        angle = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cos", angle.cos().float())
        self.register_buffer("sin", angle.sin().float())

    def forward(self, ids, start=0, caches=None):
        T = ids.shape[1]
        cos, sin = self.cos[start:start + T], self.sin[start:start + T]
        x = self.embedding(ids)
        for i, block in enumerate(self.blocks):
            x = block(x, cos, sin, None if caches is None else caches[i])
        if caches is not None:
            x = x[:, -1:]
        return self.norm(x) @ self.embedding.weight.T


model = Decoder(2048)
optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
ids = torch.randint(V, (config["batch"], config["length"]))


def train(steps):
    for _ in range(steps):
        loss = F.cross_entropy(model(ids[:, :-1]).reshape(-1, V), ids[:, 1:].reshape(-1))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        loss.item()


@torch.inference_mode()
def generate(rows, prompt, tokens):
    caches = [[] for _ in range(L)]
    logits = model(torch.randint(V, (rows, prompt)), 0, caches)[:, -1]
    for u in range(tokens):
        log_probs = logits.log_softmax(-1)
        token = torch.multinomial(log_probs.exp(), 1)
        log_probs.gather(1, token).tolist()
        if u + 1 < tokens:
            logits = model(token, prompt + u, caches)[:, -1]


hub = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=V, hidden_size=d, intermediate_size=f, num_hidden_layers=L, num_attention_heads=H, num_key_value_heads=K,
    max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None, pad_token_id=None)).eval()


@torch.inference_mode()
def generate_transformers(rows, prompt, tokens):
    ids = torch.randint(V, (rows, prompt))
    out = hub.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, max_new_tokens=tokens, min_new_tokens=tokens)
    assert out.shape == (rows, prompt + tokens)


print("ready", flush=True)
for line in sys.stdin:
    command, *arguments = line.split()
    if command == "info":
        print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
        continue
    start, cpu = time.perf_counter(), time.process_time()
    {"train": train, "generate": generate, "transformers": generate_transformers}[command](*map(int, arguments))
    print(json.dumps({"clock": time.perf_counter() - start, "cpu": time.process_time() - cpu}), flush=True)
