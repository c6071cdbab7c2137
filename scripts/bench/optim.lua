-- The benchmark of the optimizers: each line is a floor of the same run, and what an update takes, as medians
-- of interleaved rounds.
--   make bench-optim
--   QUICK=1 make bench-optim               without arrays of 124 million elements
package.path = arg[0]:match "^(.*)[/\\]" .. "/?.lua;" .. package.path
local optlua = require "optlua"
local floors = require "floors"
local timing = require "timing"
local update = require "update"
local optim = optlua.optim

local LARGE, CACHED = { 124000000, 10000000 }, 100000
local OPTS = { [124000000] = { rounds = 15, seconds = 0.1 } }
if os.getenv "QUICK" then table.remove(LARGE, 1) end

-- The arrays that the passes of rules with reductions must move.
local passes = {
  LAMB = {
    { writes = { "exp_avg", "exp_avg_sq" }, reads = { "p", "g" } },
    { writes = { "p" }, reads = { "exp_avg", "exp_avg_sq" } },
  },
  LARS = { { reads = { "p", "g" } }, { writes = { "momentum_buffer", "p" }, reads = { "g" } } },
}

-- Adafactor's of a matrix: the mean squares of its rows and columns; the norms of the update and of the parameter; the update.
local ADAFACTOR = { { reads = { "g" } }, { reads = { "p", "g" } }, { writes = { "p" }, reads = { "g" } } }

-- Loops written by hand, what they do, and the states in the order in which they take them.
local fused = {
  { "SGD", optim.SGD }, { "momentum", optim.SGD, { momentum = 0.9 } }, { "Lion", optim.Lion }, { "Adagrad", optim.Adagrad },
  { "RMSprop", optim.RMSprop }, { "AdamW", optim.AdamW }, { "Adadelta", optim.Adadelta, nil, { "square_avg", "acc_delta" } }, { "AdaBelief", optim.AdaBelief },
  { "AdEMAMix", optim.AdEMAMix, nil, { "exp_avg_fast", "exp_avg_sq", "exp_avg_slow" } },
}

--- Whether a class makes its update in one pass.
local function is_simple(class)
  return class.update and class:program({ step = 9, shape = { 64, 64 } }):find(" 1 pass,", 1, true) ~= nil
end

local function simple_classes()
  local list = {}
  for _, name in ipairs(optim.list()) do
    local class = optim.resolve(name)
    if is_simple(class) then list[#list + 1] = class end
  end
  return list
end

-- Arrays of n elements: the rules by the registry, those of several passes, clipping with an average.
local function large(n)
  local opts = OPTS[n]
  local function line(title, what) update.report(("%s, %.0f M"):format(title, n / 1e6), n, what, opts) end
  for _, class in ipairs(simple_classes()) do line(class.name, { class = class }) end
  line("SGD, momentum 0.9", { class = optim.SGD, options = { momentum = 0.9 } })
  for name, list in pairs(passes) do line(name, { class = optim[name], passes = list }) end
  line("AdamW, clip + EMA", {
    class = optim.AdamW, options = { max_norm = 1, ema = 0.999 },
    passes = { { reads = { "g" } }, { writes = { "p", "exp_avg", "exp_avg_sq", "ema" }, reads = { "g" } } },
  })
end

--- Narrow states, over the time of float32's.
local function narrow(n)
  local contenders = {}
  for i, dtype in ipairs { "float32", "bfloat16", "8bit", "8bit-all" } do
    local optimizer = update.container({ update.parameter(n) }, optim.AdamW, { state_dtype = i > 1 and dtype or nil })
    contenders[i] = { dtype, update.stepper(optimizer) }
  end
  timing.report(("AdamW's states, %.0f M"):format(n / 1e6), contenders, OPTS[n])
end

local function adafactor()
  local rows, columns = 10000, 12400
  local p = update.parameter { rows, columns }
  local optimizer = optim.Adafactor { p }
  optimizer:step()
  local lists = {}
  for i, pass in ipairs(ADAFACTOR) do
    local function tensors(names)
      local list = {}
      for k, name in ipairs(names or {}) do list[k] = name == "p" and p or p.grad end
      return list
    end
    lists[i] = floors.arrays(tensors(pass.writes), tensors(pass.reads))
  end
  timing.report(("Adafactor, %d x %d"):format(rows, columns), {
    { "bytes", function(n)
      for _ = 1, n do
        for _, list in ipairs(lists) do floors.copy(list, 1) end
      end
    end },
    { "step", update.stepper(optimizer) },
  }, OPTS[124000000])
end

--- The products of Muon alone, in the order in which it makes them.
local function muon()
  local rows, columns, steps = 4096, 1024, 5
  local p = update.parameter { rows, columns }
  timing.report(("Muon, %d x %d"):format(rows, columns), {
    { "sgemm", function(n)
      for _ = 1, n * steps do
        floors.multiply(columns, columns, rows, 1)
        floors.multiply(columns, columns, columns, 1)
        floors.multiply(columns, rows, columns, 1)
      end
    end },
    { "step", update.stepper(optim.Muon({ p }, { ns_steps = steps })) },
  }, { rounds = 7, seconds = 0.3 })
end

local function in_cache()
  for _, loop in ipairs(fused) do
    local name, class, options, states = table.unpack(loop, 1, 4)
    update.report(("%s, %d"):format(name, CACHED), CACHED, { class = class, options = options, passes = false, fused = name, states = states })
  end
end

local function all(threads)
  optlua.set_num_threads(threads)
  print(("\n%d thread%s"):format(threads, threads == 1 and "" or "s"))
  for _, n in ipairs(LARGE) do
    large(n)
    narrow(n)
  end
  if LARGE[2] then adafactor() end
  update.small_tensors(optim.AdamW)
  in_cache()
  muon()
end

timing.legend("bytes", "fused C", "sgemm", "step")
all(2)
all(1)
print ""
for _, class in ipairs { optim.AdamW, optim.Lion, optim.SGD } do update.tracing(class) end
