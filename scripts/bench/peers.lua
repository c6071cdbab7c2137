-- The benchmark of optimizers beside PyTorch's: medians of interleaved rounds in two processes; each line ends
-- with how many times as long PyTorch takes.
--   PEER_PYTHON=bin/python make bench-peers
package.path = arg[0]:match "^(.*)[/\\]" .. "/?.lua;" .. package.path
local optlua = require "optlua"
local peer = require "peer"
local timing = require "timing"
local update = require "update"
local optim = optlua.optim

--- The shapes of GPT-2's parameters: 148 tensors, 124 million elements.
local function gpt2()
  local width, list = 768, { { 50257, 768 }, { 1024, 768 } }
  for _ = 1, 12 do
    for _, shape in ipairs {
      { width }, { width }, { 3 * width, width }, { 3 * width }, { width, width }, { width },
      { width }, { width }, { 4 * width, width }, { 4 * width }, { width, 4 * width }, { width },
    } do list[#list + 1] = shape end
  end
  list[#list + 1], list[#list + 2] = { width }, { width }
  return list
end

local function small()
  local list = {}
  for k = 1, 10000 do list[k] = { 1000 } end
  return list
end

local shapes = { ["GPT-2"] = gpt2, ["10,000 x 1,000"] = small }

local lines = {
  { "AdamW", "GPT-2", optim.AdamW, {}, { "fused", "foreach", "for-loop", "compiled" } },
  { "AdamW, clip + EMA", "GPT-2", optim.AdamW, { max_norm = 1, ema = 0.999 }, { "fused", "foreach", "for-loop" } },
  { "Lion", "GPT-2", optim.Lion, {}, { "eager", "foreach", "compiled" } },
  { "AdaBelief", "GPT-2", optim.AdaBelief, {}, { "eager", "foreach", "compiled" } },
  { "Adan", "GPT-2", optim.Adan, {}, { "eager", "foreach", "compiled" } },
  { "AdamW", "10,000 x 1,000", optim.AdamW, {}, { "fused", "foreach", "for-loop" } },
  { "AdamW, clip + EMA", "10,000 x 1,000", optim.AdamW, { max_norm = 1, ema = 0.999 }, { "fused", "foreach", "for-loop" } },
}

local function run(title, tensors, class, options, ways, threads)
  local list = {}
  for k, shape in ipairs(shapes[tensors]()) do list[k] = update.parameter(shape) end
  local contenders = { { "optlua", update.stepper(update.container(list, class, options)) } }
  for _, way in ipairs(ways) do
    local contender = peer.contender("peer_optim", title .. " of " .. tensors, way, threads)
    if not contender then error(("the peer does not know %s of %s"):format(title, way)) end
    contenders[#contenders + 1] = { way, contender[2] }
  end
  timing.report(title .. ", " .. tensors, contenders, { rounds = 7, seconds = 0.3 })
end

timing.legend("optlua", "fused, foreach, for-loop, compiled, eager")
for _, threads in ipairs { 2, 1 } do
  optlua.set_num_threads(threads)
  print(("%d thread%s"):format(threads, threads == 1 and "" or "s"))
  for _, line in ipairs(lines) do
    local title, tensors, class, options, ways = table.unpack(line)
    run(title, tensors, class, options, ways, threads)
    collectgarbage()
  end
end
