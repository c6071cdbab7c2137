--- generate: text from a model that predicts the next token.
local optlua = require "optlua"
local blame = require "optlua.blame"
local closing = require "optlua.closing"
local evaluating = require "optlua.evaluating"
local options = require "optlua.options"
local shape_text = require("optlua.shape").text

local LEAST = -1 / 0

--- Leaves only the k largest logits.
local function keep_top_k(logits, k)
  if k >= #logits then return logits end
  local least = logits:topk(k)[k]
  return logits:masked_fill(logits:lt(least), LEAST)
end

--- Leaves only the likeliest tokens whose probabilities together reach p: "nucleus sampling" (Holtzman et al.,
--- 2020).
local function keep_top_p(logits, p)
  local sorted, order = logits:sort(1, true)
  local shares = sorted:softmax(1)
  local dropped = (shares:cumsum(1) - shares):ge(p) -- what lies before reaches p without it; 0 before the first
  local mask = optlua.zeros(#logits, { dtype = "uint8" })
  mask[order] = dropped
  return logits:masked_fill(mask, LEAST)
end

--- One token, drawn by the logits (V) of all.
local function draw(logits, opts)
  local greatest = logits:max():item()
  if greatest ~= greatest or math.abs(greatest) == math.huge then
    blame("data.generate: the greatest of the model's logits is " .. (greatest ~= greatest and "NaN" or greatest))
  end
  if opts.temperature == 0 then return logits:argmax():item() end
  logits = (logits:to "float64" - greatest) / opts.temperature
  if opts.top_k then logits = keep_top_k(logits, opts.top_k) end
  if opts.top_p then logits = keep_top_p(logits, opts.top_p) end
  return logits:softmax(1):multinomial(1):item()
end

--- Calls the model; where it has no position for that many tokens, says which option helps.
local function run(model, ids, context)
  local ok, result = pcall(model, ids:unsqueeze(1)) -- (1,T) -> (1,T,V)
  if ok then return result end
  if type(result) == "string" and result:find "out of range" and not context then
    blame(("data.generate: the model fails on %d tokens (%s); the option context says how many it sees at most")
      :format(#ids, result:match "^[^\n]*"))
  end
  error(result, 0)
end

--- The logits (V) of what follows the ids (T).
local function predict(model, ids, size, context)
  local logits = run(model, ids, context)
  if not optlua.is_tensor(logits) or logits.ndim ~= 3 or logits.shape[2] ~= #ids or logits.shape[3] ~= size then
    local got = optlua.is_tensor(logits) and ("shape %s"):format(shape_text(logits)) or type(logits)
    blame(("data.generate: the model gives %s; logits of shape (1, %d, %d) expected"):format(got, #ids, size))
  end
  return logits[{ 1, -1 }]
end

local function continue(model, vocabulary, ids, opts)
  for _ = 1, opts.tokens do
    local seen = opts.context and #ids > opts.context and ids:narrow(1, #ids - opts.context + 1, opts.context) or ids
    local id = draw(predict(model, seen, #vocabulary, opts.context), opts)
    ids = optlua.cat { ids, optlua.tensor({ id }, "int64") }
  end
  return vocabulary:decode(ids)
end

--- Calls fn(...) with random numbers that start from a seed; afterwards they go on as if nothing had been.
local function with_seed(seed, fn, ...)
  local state = optlua.get_rng_state()
  local _ <close> = closing(function() optlua.set_rng_state(state) end)
  optlua.manual_seed(seed)
  return fn(...)
end

local schema = {
  prompt = "\n",
  tokens = { default = 100, min = 0, integer = true },
  temperature = { default = 1, min = 0, below = math.huge },
  top_k = { required = false, type = "integer", min = 1 },
  top_p = { required = false, type = "number", above = 0, max = 1 },
  context = { required = false, type = "integer", min = 1 },
  seed = { required = false, type = "integer" },
}

--- Lets a model go on with a text: a module that takes token ids, int64 (1, T), and gives logits (1, T, #vocabulary).
--- It runs in evaluation mode and without gradients; its modes are as before afterwards, also after an error.
---@param model nn.Module
---@param vocabulary data.Vocabulary of the text that the model has learnt from
---@param opts? { prompt?: string, tokens?: integer, temperature?: number, top_k?: integer, top_p?: number, context?: integer, seed?: integer }
---  prompt: what it begins with, "\n"; tokens: how many it adds, 100; temperature: 1; 0 takes the likeliest token each
---  time; top_k: draws from the k likeliest only; top_p: from the likeliest that together have probability p only;
---  context: how many tokens the model sees at most; seed: draws from it and leaves the generator alone; without it
---  the numbers of optlua.manual_seed are used
---@return string # the prompt and what follows
local function generate(model, vocabulary, opts)
  opts = options.check("data.generate", opts, schema)
  if type(model) ~= "table" or type(model.named_modules) ~= "function" then
    blame(("data.generate: model: a module expected, got %s"):format(type(model)))
  end
  if type(vocabulary) ~= "table" or not vocabulary.encode or not vocabulary.decode then
    blame(("data.generate: vocabulary: one of data.vocabulary expected, got %s"):format(type(vocabulary)))
  end
  local ids = vocabulary:encode(opts.prompt)
  if not optlua.is_tensor(ids) then
    blame("data.generate: vocabulary: its encode gives a " .. type(ids) .. "; a tensor of token ids expected")
  end
  if #ids == 0 then blame "data.generate: prompt: at least one character expected" end
  if opts.seed then return with_seed(opts.seed, evaluating, model, continue, model, vocabulary, ids, opts) end
  return evaluating(model, continue, model, vocabulary, ids, opts)
end

return { generate = generate }
