-- A character-level GPT that learns the text you give it, in a plain loop (06_char_gpt.lua says the same as a spec).
--   optlua scripts/char_gpt.lua                       (the licence texts of this machine)
--   optlua scripts/char_gpt.lua --text FILE --steps 2000 --width 256 --save gpt.safetensors
--   optlua scripts/char_gpt.lua --text FILE --steps 0 --width 256 --load gpt.safetensors      (goes on with what was saved)
local optlua = require "optlua"
local nn, optim, data = optlua.nn, optlua.optim, optlua.data

local config = optlua.config {
  seed = 1, steps = 500, batch_size = 16, lr = 1e-3, width = 128, heads = 4, layers = 4, context = 64,
  tokens = optlua.arg { default = 300, doc = "characters to write after training" },
  text = optlua.arg { type = "string", doc = "file to learn; default: the licence texts of this machine" },
  save = optlua.arg { type = "string", doc = "file for what was learnt" },
  load = optlua.arg { type = "string", doc = "file that --save wrote, to begin with" },
}
optlua.manual_seed(config.seed)

local Block = nn.class "Block"
function Block:init(c)
  self.ln1  = nn.LayerNorm(c.width)                        -- one assignment a line: Lua assigns `a, b = x, y` from right
  self.attn = nn.CausalSelfAttention(c.width, c.heads)     -- to left, and parameters are named in the order of assignment
  self.ln2  = nn.LayerNorm(c.width)
  self.fc   = nn.Linear(c.width, 4 * c.width)
  self.proj = nn.Linear(4 * c.width, c.width)
end
function Block:forward(x)                                  -- (B,T,C)
  x = x + self.attn(self.ln1(x))
  return x + self.proj(self.fc(self.ln2(x)):gelu())
end

local GPT = nn.class "GPT"
function GPT:init(c, vocabulary)
  self.wte = nn.Embedding(vocabulary, c.width)
  self.wpe = nn.Embedding(c.context, c.width)
  self.blocks = nn.ModuleList()
  for _ = 1, c.layers do self.blocks:append(Block(c)) end
  self.ln = nn.LayerNorm(c.width)
  self.head = nn.Linear(c.width, vocabulary, { bias = false })
  self.head.weight = self.wte.weight                       -- tied: one parameter
  nn.init.normal_(self.wte.weight, 0, 0.02)                -- as GPT-2: as a head, numbers around 1 would be far too large
  nn.init.normal_(self.wpe.weight, 0, 0.02)
end
function GPT:forward(ids)                                  -- (B,T) -> (B,T,V)
  local x = self.wte(ids) + self.wpe(optlua.arange(0, ids.shape[2]))
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.ln(x))
end

local vocabulary
if config.load then                                        -- the file has its characters; the first stands for others
  local characters = select(2, optlua.load(config.load)).characters
  vocabulary = data.vocabulary(characters, { unknown = characters:match(utf8.charpattern) })
end
local train, validation = data.text(config.text or data.system_texts(), { context = config.context, vocabulary = vocabulary })
local loader = data.loader(train, { batch_size = config.batch_size, shuffle = true })
local model = GPT(config, #train.vocabulary)
if config.load then model:load(config.load) end

local function loss_fn(logits, targets)                    -- (B,T,V), (B,T)
  return nn.functional.cross_entropy(logits:flatten(1, 2), targets:flatten())
end

local betas = { 0.9, 0.95 }
local optimizers = optim.container(model, {
  { name = "matrices", match = { ndim = 2 }, class = optim.AdamW, lr = config.lr, betas = betas, weight_decay = 0.1 },
  { name = "vectors",  match = "*",          class = optim.AdamW, lr = config.lr, betas = betas, weight_decay = 0 },
}, { max_norm = 1 })

optim.lr_scheduler(optimizers, optlua.schedule.warmup_stable_decay {
  warmup_steps = config.steps // 10, total_steps = math.max(config.steps, 1), decay_type = "cosine", min_lr_factor = 0.1,
})

local began, step, sum = os.time(), 0, 0
while step < config.steps do
  for ids, targets in loader:batches() do
    step = step + 1
    local loss = loss_fn(model(ids), targets)
    optimizers:zero_grad()
    loss:backward()
    optimizers:step()
    sum = sum + loss:item()
    if step % 50 == 0 or step == config.steps then
      print(("step %4d  loss %.4f  lr %.5f"):format(step, sum / ((step - 1) % 50 + 1), optimizers.groups.matrices.lr))
      sum = 0
    end
    if step >= config.steps then break end
  end
end

local result = optlua.evaluate(model, validation, { loss = optlua.metrics.loss(loss_fn) })
print(("validation loss %.4f after %d steps in %d s"):format(result.loss, step, os.time() - began))
print(data.generate(model, train.vocabulary,
  { prompt = "The ", tokens = config.tokens, temperature = 0.8, context = config.context }))
if config.save then model:save(config.save, { characters = table.concat(train.vocabulary.characters) }) end
