-- The benchmarks: each line is a floor, measured in the same run, and what optlua takes, as medians of
-- interleaved rounds.
--   make bench
--   QUICK=1 make bench                     without arrays of 124 million elements, and fewer rounds of layers
--   PEER_PYTHON=bin/python make bench      layers beside PyTorch's, from a Python that has torch
package.path = arg[0]:match "^(.*)[/\\]" .. "/?.lua;" .. package.path
local optlua = require "optlua"
local floors = require "floors"
local layers = require "layers"
local timing = require "timing"
local update = require "update"
local nn, optim = optlua.nn, optlua.optim

--- AdamW as a user would write it, in a script.
local Copy = optim.define {
  name = "AdamWCopy",
  hyper = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 1e-2 },
  state = { exp_avg = 0, exp_avg_sq = 0 },
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    s.exp_avg = b1 * s.exp_avg + (1 - b1) * g
    s.exp_avg_sq = b2 * s.exp_avg_sq + (1 - b2) * (g * g)
    local denominator = 1 / math.sqrt(1 - b2 ^ h.step) * optim.sqrt(s.exp_avg_sq) + h.eps
    return p * (1 - h.lr * h.weight_decay) - h.lr / (1 - b1 ^ h.step) * (s.exp_avg / denominator)
  end,
}

local times = update.times

local function adamw(n, opts)
  local options = { lr = 1e-5 }
  update.report(("AdamW, %d elements"):format(n), n, { class = optim.AdamW, options = options, fused = "AdamW" }, opts)
  update.report(("script's AdamW, %d elements"):format(n), n, { class = Copy, options = options, fused = "AdamW" }, opts)
end

local function addition()
  local a, b = optlua.randn { 16 }, optlua.randn { 16 }
  local sum
  timing.report("a + b, 16 elements", {
    { "C call", function(n) local call = floors.call; for _ = 1, n do call() end end },
    { "a + b", function(n) for _ = 1, n do sum = a + b end end },
  })
  return sum
end

local function network()
  return nn.Sequential { nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10) }
end

local function training_step()
  local model, loss_fn = network(), nn.CrossEntropyLoss()
  local optimizer = optim.AdamW(model, { lr = 1e-4 })
  local x, y = optlua.randn { 32, 64 }, optlua.randint(0, 10, { 32 })
  timing.report("training step, 64-64-10, batch 32", {
    { "products", floors.step_products },
    { "step", times(function()
      local loss = loss_fn(model(x), y)
      optimizer:zero_grad()
      loss:backward()
      optimizer:step()
    end) },
  })
  local one = optlua.randn { 1, 64 }
  timing.report("forward pass, 64-64-10, batch 1", {
    { "products", floors.forward_products },
    { "pass", times(function() optlua.no_grad(model, one) end) },
  })
end

-- How long a save stops the training; the floor brings as many bytes to the disk, as one file.
local function saving()
  local host = require("optlua.core").hidden
  local folder = require "optlua.checkpoint.folder"
  local model = nn.Sequential { nn.Linear(1000, 1000), nn.Linear(1000, 500) }
  local optimizer = optim.AdamW(model)
  model(optlua.randn { 8, 1000 }):sum():backward()
  optimizer:step()
  local place, bytes = os.tmpname(), 0
  os.remove(place)
  for _, tensor in model:named_parameters() do bytes = bytes + 3 * 4 * tensor:numel() end
  folder.make(place)
  local text = ("x"):rep(bytes)
  timing.report(("pause of a checkpoint, %.0f MB"):format(bytes / 1e6), {
    { "file", times(function() host.write_file(place .. "/file", text) end) },
    { "checkpoint.save", times(function() optlua.checkpoint.save(place .. "/checkpoint", { model = model, optimizer = optimizer }) end) },
  })
  folder.remove(place)
end

local function start_up()
  local program = os.getenv "OPTLUA" or "build/optlua"
  timing.report("start", {
    { "lua5.4", times(function() os.execute "lua5.4 -e ''" end) },
    { "optlua", times(function() os.execute(program .. " -e ''") end) },
    { "with the library", times(function() os.execute(program .. [[ -e 'local nn = require("optlua").nn']]) end) },
  })
end

local function all(threads)
  optlua.set_num_threads(threads)
  print(("\n%d thread%s"):format(threads, threads == 1 and "" or "s"))
  if not os.getenv "QUICK" then adamw(124000000, { rounds = 15, seconds = 0.1 }) end
  for _, n in ipairs { 10000000, 1000000, 100000, 10000 } do adamw(n) end
  update.small_tensors(optim.AdamW)
end

timing.legend("bytes", "fused C", "products", "step", "torch")
for _, name in ipairs { "blas", "isa" } do
  local value = optlua.build_info()[name]
  if value then print(name, value) end
end
all(2)
all(1)
print ""
update.tracing(optim.AdamW)
addition()
training_step()
saving()
start_up()
for _, threads in ipairs { 2, 1 } do
  layers.run(threads, nil, os.getenv "QUICK" and { rounds = 3, seconds = 0.02 } or { rounds = 7 })
end
