-- Sequences of different lengths: an LSTM learns which strings of brackets are balanced, like "(()())()".
-- Batches are padded and packed: the network sees no padding. It has to count, and it counts on in strings that
-- are longer than any that it has seen.
--   optlua scripts/sequence.lua
--   optlua scripts/sequence.lua --items 2000 --longest 20 --epochs 3
local optlua = require "optlua"
local nn, optim, data = optlua.nn, optlua.optim, optlua.data
local rnn = nn.utils.rnn

local config = optlua.config {
  seed = 0, items = 8000, longest = 40, epochs = 5, batch_size = 64, width = 32, lr = 5e-3,
}
optlua.manual_seed(config.seed)
math.randomseed(config.seed)

--- Whether every bracket finds its partner: what is left when balanced pairs are taken away.
local function balanced(text) return text:gsub("%b()", "") == "" end

--- A balanced string of 2n brackets.
local function brackets(n)
  local text, open, left = {}, 0, 2 * n
  while left > 0 do
    local opens = open == 0 or open < left and math.random() < 0.5
    text[#text + 1] = opens and "(" or ")"
    open, left = open + (opens and 1 or -1), left - 1
  end
  return table.concat(text)
end

--- Spoils a string by exchanging two characters until it is no longer balanced.
local function spoil(text)
  local bytes = { text:byte(1, -1) }
  repeat
    local i, j = math.random(#bytes), math.random(#bytes)
    bytes[i], bytes[j] = bytes[j], bytes[i]
  until not balanced(string.char(table.unpack(bytes)))
  return string.char(table.unpack(bytes))
end

--- Item: the brackets, int64 (length), 0 opens and 1 closes; and 1 where they are balanced, else 0.
local function encode(text)
  local ids = {}
  for i = 1, #text do ids[i] = text:byte(i) - ("("):byte() end
  return optlua.tensor(ids, "int64"), balanced(text) and 1 or 0
end

--- A dataset of n strings of shortest to longest brackets, every other one spoilt.
local function strings(n, shortest, longest)
  local texts = {}
  for i = 1, n do
    local text = brackets(math.random((shortest + 1) // 2, longest // 2))
    texts[i] = i % 2 == 0 and text or spoil(text)
  end
  return { n = n, get = function(i) return encode(texts[i]) end }
end

--- Items -> padded brackets (B,T), lengths (B), labels (B).
local function collate(items)
  local ids, lengths, labels = {}, {}, {}
  for i, item in ipairs(items) do ids[i], lengths[i], labels[i] = item[1], #item[1], item[2] end
  return rnn.pad_sequence(ids, { batch_first = true }), optlua.tensor(lengths, "int64"), optlua.tensor(labels, "int64")
end

local Judge = nn.class "Judge"
function Judge:init(width)
  self.embedding = nn.Embedding(2, 8)
  self.lstm = nn.LSTM(8, width, { batch_first = true })
  self.head = nn.Linear(width, 2)
end
function Judge:forward(ids, lengths)                       -- (B,T), (B) -> (B,2)
  local packed = rnn.pack_padded_sequence(self.embedding(ids), lengths, { batch_first = true, enforce_sorted = false })
  local _, last = self.lstm(packed)                        -- { h, c } after each string's own last bracket, (1,B,C)
  return self.head(last[1][1])
end

local function load(set)
  return data.loader(set, { batch_size = config.batch_size, shuffle = true, collate = collate })
end
local train = load(strings(config.items, 2, config.longest))
local test = load(strings(1000, 2, config.longest))
local longer = load(strings(1000, config.longest + 1, 2 * config.longest))

local model = Judge(config.width)
local optimizer = optim.container(model, optim.AdamW, { lr = config.lr, max_norm = 1 })
for epoch = 1, config.epochs do
  local total = 0
  for ids, lengths, labels in train:batches() do
    local loss = nn.functional.cross_entropy(model(ids, lengths), labels)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    total = total + loss:item()
  end
  local metrics = { accuracy = optlua.metrics.accuracy() }
  print(("epoch %2d  loss %.4f  accuracy %.4f  on longer strings %.4f"):format(epoch, total / #train,
    optlua.evaluate(model, test, metrics).accuracy, optlua.evaluate(model, longer, metrics).accuracy))
end

local function judge(text)
  local ids = encode(text):unsqueeze(1)
  local verdict = optlua.no_grad(model, ids, { #text }):argmax():item()
  print(("%-12s %s"):format(text, verdict == 1 and "balanced" or "not balanced"))
end
for _, text in ipairs { "(()(()))", "())(()", "((((()))))", "(()" } do judge(text) end
