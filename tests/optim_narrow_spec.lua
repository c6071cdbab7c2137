-- States in bfloat16 and in codes of 8 bits: how they round, what that does to training, how they are saved.
local optlua = require "optlua"
local files = require "files"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching

local N = 70000 -- more than a chunk of the machine, and no multiple of a block

-- Keeps what it is given: states are as they were stored.
local Keep = optim.define {
  name = "Keep",
  state = { plain = 0, size = { positive = true } },
  update = function(p, g, s)
    s.plain, s.size = g, optim.abs(g)
    return p
  end,
}

local function leaf(values, gradient)
  local p = values:clone()
  p.requires_grad = true
  p.grad = gradient
  return p
end

-- The state after one update with a gradient.
local function kept(gradient, opts)
  local optimizer = Keep({ { "w", leaf(optlua.zeros(gradient.shape), gradient) } }, opts)
  optimizer:step()
  return optimizer:state_dict(), optimizer
end

local function numbers(tensor) return tensor:to("float64"):reshape(-1):totable() end

-- Calls a function; what it says on stderr.
local function said(fn, ...)
  local real, text = io.stderr, {}
  io.stderr = { write = function(_, line) text[#text + 1] = line end } -- luacheck: ignore
  local ok, message = pcall(fn, ...)
  io.stderr = real -- luacheck: ignore
  if not ok then error(message, 0) end
  return table.concat(text)
end

-- What a state is worth: loaded by an optimizer that keeps it in float32.
local function widened(state)
  local other = Keep { { "w", optlua.zeros(state["state.w.plain"].shape):requires_grad_(true) } }
  said(other.load_state_dict, other, state)
  return other:state_dict()
end

-- Magnitudes from 1e-6 to 1, many of them 0.
local function spread(n)
  optlua.manual_seed(3)
  return optlua.randn { n } * (optlua.rand { n } * -14):exp() * optlua.rand({ n }):gt(0.1):to "float32"
end

-- The codes, as the paper and pencil of runtime/rule/narrow.h have them.

local function single(x) return (string.unpack("<f", string.pack("<f", x))) end
local function bits(x) return (string.unpack("<I4", string.pack("<f", x))) end
local function number(b) return (string.unpack("<f", string.pack("<I4", b))) end

local ONE, STEP = bits(1), 1 << 20

local function code_of(x, scale, positive)
  local most = positive and 255 or 127
  local top = single(number(ONE + most * STEP) - 1)
  local steps = bits(single(single(math.abs(x) * single(top / scale)) + 1)) - ONE
  local code = math.min((steps + STEP // 2) // STEP, most)
  if positive then return code == 0 and x ~= 0 and 1 or code end
  return code + (string.pack(">f", x):byte() >= 128 and 128 or 0)
end

local function value_of(code, scale, positive)
  local most = positive and 255 or 127
  local unit = single(scale * single(1 / single(number(ONE + most * STEP) - 1)))
  local size = single(single(number(ONE + (code & most) * STEP) - 1) * unit)
  return code > most and -size or size
end

describe("codes of 8 bits", function()
  local gradient = spread(N)
  local state = kept(gradient, { state_dtype = "8bit-all", state_rounding = "nearest" })
  local wide = widened(state)

  for slot, positive in pairs { plain = false, size = true } do
    local codes, scales = state["state.w." .. slot], state["scale.w." .. slot]
    it(("of %s are those of the definition"):format(positive and "positive states" or "states"), function()
      assert.equal("uint8", codes.dtype)
      assert.same({ (N + 255) // 256 }, scales.shape)
      local x, c, s, w = numbers(gradient), numbers(codes), numbers(scales), numbers(wide["state.w." .. slot])
      for k = 1, N do
        local scale = s[(k - 1) // 256 + 1]
        if c[k] ~= code_of(x[k], scale, positive) or w[k] ~= value_of(c[k] // 1 | 0, scale, positive) then
          error(("element %d: %g became %d, worth %g; %d, %g were expected"):format(k, x[k], c[k], w[k], code_of(x[k], scale, positive), value_of(c[k] // 1 | 0, scale, positive)))
        end
      end
    end)

    it(("of %s err by half a step, and keep what is 0 and the largest"):format(positive and "positive states" or "states"), function()
      local x, w, s = numbers(gradient), numbers(wide["state.w." .. slot]), numbers(scales)
      for k = 1, N do
        local size, got, scale = math.abs(x[k]), math.abs(w[k]), s[(k - 1) // 256 + 1]
        local step = (size + scale / (positive and 2 ^ 31 or 2 ^ 15)) / 8 -- of the code at x, or more
        assert.is_true(math.abs(got - size) <= step / 2 + 1e-6 * size or positive and got > 0 and got <= step)
        if positive then assert.equal(size == 0, got == 0) end
        if size == scale then assert.is_true(math.abs(got - size) <= 1e-6 * size) end
      end
    end)
  end

  it("show what is no number, in a block and not beyond", function()
    local values = optlua.ones { 4096 }
    values[300] = 0 / 0
    local got = numbers(widened(kept(values, { state_dtype = "8bit" }))["state.w.plain"])
    for k = 1, 4096 do
      local spoilt = k > 256 and k <= 512
      assert.equal(spoilt, got[k] ~= got[k])
      if not spoilt then assert.is_true(math.abs(got[k] - 1) < 1e-6) end
    end
  end)

  it("hold infinity as the largest number, and leave its neighbours finite", function()
    local values = optlua.full({ 4096 }, 1e30)
    values[300], values[1000], values[2000] = 1 / 0, -1 / 0, 3.4028234e38
    local state_of_ends = widened(kept(values, { state_dtype = "8bit-all", state_rounding = "nearest" }))
    for slot, sign in pairs { plain = -1, size = 1 } do
      local got = numbers(state_of_ends["state.w." .. slot])
      for k = 1, 4096 do
        local want = k == 1000 and sign * 3.4028e38 or (k == 300 or k == 2000) and 3.4028e38
        if want then assert.is_true(math.abs(got[k] / want - 1) < 1e-4) end
        assert.is_true(math.abs(got[k]) < math.huge)
      end
    end
    local w = optlua.zeros({ 4096 }, { requires_grad = true })
    local optimizer = optim.AdamW({ { "w", w } }, { state_dtype = "8bit-all" })
    w.grad = optlua.ones { 4096 }
    w.grad[7] = 1e20 -- its square is infinite
    for _ = 1, 2 do optimizer:step() end
    assert.equal(4096, w:isfinite():sum():item())
  end)

  it("hold zeros, and positive numbers however small, above 0", function()
    local state_of_zeros = widened(kept(optlua.zeros { 4096 }, { state_dtype = "8bit-all" }))
    assert.equal(0, state_of_zeros["state.w.plain"]:abs():sum():item())
    assert.equal(0, state_of_zeros["state.w.size"]:abs():sum():item())
    local tiny = widened(kept(optlua.full({ 4096 }, 1e-41), { state_dtype = "8bit-all" }))["state.w.size"]
    assert.is_true(tiny:min():item() > 0 and tiny:max():item() < 1e-27)
    local huge = widened(kept(optlua.full({ 4096 }, 3e38), { state_dtype = "8bit-all" }))
    assert.is_true(math.abs(huge["state.w.size"]:min():item() / 3e38 - 1) < 1e-6)
    assert.is_true(math.abs(huge["state.w.plain"]:min():item() / 3e38 - 1) < 1e-6)
  end)

  it("hold states of float64 too", function()
    local p = leaf(optlua.zeros({ 4096 }, { dtype = "float64" }), optlua.full({ 4096 }, 0.5, { dtype = "float64" }))
    local optimizer = Keep({ { "w", p } }, { state_dtype = "8bit" })
    optimizer:step()
    assert.equal("uint8", optimizer:state_dict()["state.w.plain"].dtype)
    assert.equal("bfloat16", optimizer:state_dict()["state.w.size"].dtype)
  end)
end)

-- How often the states are above a number.
local function share_above(tensor, limit) return tensor:to("float64"):gt(limit):to("float64"):mean():item() end

describe("stochastic rounding", function()
  it("is right on average, and keeps what fits", function()
    -- Between 1 and the next bfloat16, 1 + 1/128; between the codes of 1 and 1 - 1/15 of a block's largest.
    local x = optlua.full({ N }, 1 + 0.3 / 128)
    local up = share_above(kept(x, { state_dtype = "bfloat16" })["state.w.size"], 1.001)
    assert.is_true(math.abs(up - 0.3) < 4 * math.sqrt(0.3 * 0.7 / N))
    assert.equal(1, kept(optlua.ones { N }, { state_dtype = "bfloat16" })["state.w.size"]:to("float32"):max():item())
    for _, negative in ipairs { 1, -1 } do
      local values = optlua.full({ N }, 0.95 * negative)
      for k = 1, N, 256 do values[k] = negative end -- the largest of each block
      local opts = { state_dtype = "8bit-all", state_rounding = "stochastic" }
      local state = widened(kept(values, opts))
      for _, slot in ipairs { "plain", "size" } do
        local mean = state["state.w." .. slot]:to("float64"):abs():mean():item()
        assert.is_true(math.abs(mean - values:to("float64"):abs():mean():item()) < 4 * 0.034 / math.sqrt(N))
      end
    end
  end)

  it("has noise without a pattern: neighbours, steps, states, parameters and seeds differ", function()
    local x = optlua.full({ N }, 1 + 0.5 / 128)
    local function noise(opts)
      optlua.manual_seed(opts.seed or 1)
      local p = leaf(optlua.zeros { N }, x)
      local optimizer = Keep({ { opts.name or "w", p } }, { state_dtype = "bfloat16", state_rounding = "stochastic" })
      for _ = 1, opts.steps or 1 do optimizer:step() end
      return optimizer:state_dict()[("state.%s.%s"):format(opts.name or "w", opts.slot or "size")]:to("float64"):gt(1.001):to "float64"
    end
    local function agreement(a, b) return a:eq(b):to("float64"):mean():item() end
    local first = noise {}
    assert.equal(1, agreement(first, noise {}))
    local bound = 4 * 0.5 / math.sqrt(N)
    for _, other in ipairs { noise { steps = 2 }, noise { slot = "plain" }, noise { name = "v" }, noise { seed = 2 } } do
      assert.is_true(math.abs(agreement(first, other) - 0.5) < bound)
    end
    for _, lag in ipairs { 1, 2, 16, 256, 4096 } do
      local a, b = first:narrow(1, 1, N - lag), first:narrow(1, 1 + lag, N - lag)
      assert.is_true(math.abs(agreement(a, b) - 0.5) < 2 * bound)
    end
    assert.is_true(math.abs(agreement(noise { steps = 3 }, noise { steps = 2 }) - 0.5) < bound)
  end)

  it("lets second moments decay where rounding to nearest keeps them", function()
    local function decayed(opts)
      local p = leaf(optlua.zeros { N }, optlua.ones { N })
      local optimizer = optim.Adam({ { "w", p } }, opts)
      optimizer:step()
      p.grad = optlua.zeros { N }
      for _ = 1, 700 do optimizer:step() end
      return optimizer:state_dict()["state.w.exp_avg_sq"]:to("float64"):mean():item() / 1e-3
    end
    assert.is_true(math.abs(decayed { state_dtype = "bfloat16" } - 0.999 ^ 700) < 1e-3)
    assert.is_true(decayed { state_dtype = "bfloat16", state_rounding = "nearest" } > 0.9)
  end)

  it("does not depend on the groups and the order of parameters", function()
    local function trained(dtype, groups) -- small neighbours of one group are one run
      optlua.manual_seed(2)
      local net = nn.Sequential { nn.Linear(80, 70), nn.Linear(70, 3) }
      local optimizer = optim.container(net, groups, { state_dtype = dtype })
      for k = 1, 3 do
        for i, p in ipairs(net:parameters()) do p.grad = (optlua.arange(p:numel()) * (i + 0.3) + k):sin():reshape(p.shape) end
        optimizer:step()
      end
      return optimizer:state_dict()
    end
    for _, dtype in ipairs { "bfloat16", "8bit" } do
      local one = trained(dtype, { { match = "*", class = "AdamW" } })
      local three = trained(dtype, { { match = "1.bias", class = "AdamW" }, { match = "*.weight", class = "AdamW" },
        { match = "*", class = "AdamW" } })
      for name, value in pairs(one) do
        if name:find "^state" and optlua.is_tensor(value) then assert.same(numbers(value), numbers(three[name])) end
      end
    end
  end)
end)

describe("training with narrow states", function()
  -- Gradients of a fixed sequence, whose elements differ in size; how far the parameters end from those of float32.
  local function trajectory(class, opts)
    optlua.manual_seed(4)
    local n = 64 * 256
    local size = optlua.randn({ n }):exp() * 1e-3
    local drift = optlua.randn { n } * 0.3
    local p = leaf(optlua.zeros { n })
    local optimizer = class({ p }, opts)
    for k = 1, 300 do
      p.grad = (optlua.randn { n } + drift) * size * (k < 100 and 1 or 0.2)
      optimizer:step()
    end
    return p:detach()
  end

  -- Of the way that parameters have come, at most; twice what was measured. Signs of Lion turn where little does.
  local bounds = {
    AdamW = { bfloat16 = 0.02, ["8bit"] = 0.03, ["8bit-all"] = 0.12 },
    Lion = { bfloat16 = 0.02, ["8bit"] = 0.1, ["8bit-all"] = 0.1 },
    Adagrad = { bfloat16 = 0.02, ["8bit"] = 0.02, ["8bit-all"] = 0.12 },
    RMSprop = { bfloat16 = 0.02, ["8bit"] = 0.02, ["8bit-all"] = 0.12 },
  }
  for name, bound in pairs(bounds) do
    it(("by %s ends near float32"):format(name), function()
      local wanted = trajectory(optim[name], {})
      for dtype, limit in pairs(bound) do
        local got = trajectory(optim[name], { state_dtype = dtype })
        local off = ((got - wanted):square():sum() / wanted:square():sum()):sqrt():item()
        assert.is_true(off > 0 and off < limit, ("%s: %g"):format(dtype, off))
      end
    end)
  end

  it("gives the same bits whether arrays lie in memory or in a cache", function()
    local count, part = 4000 * 1024 + 5037, 1000 * 1024 -- blocks of 256 stay whole
    optlua.manual_seed(1)
    local values, gradient = optlua.randn { count }, optlua.randn { count }
    local function trained(p, opts)
      local optimizer = optim.AdamW({ { "w", p } }, opts)
      for _ = 1, 3 do optimizer:step() end
      return p:detach()
    end
    for _, dtype in ipairs { "bfloat16", "8bit-all" } do
      local opts = { state_dtype = dtype, state_rounding = "nearest" }
      local whole = trained(leaf(values, gradient), opts)
      for first = 1, count, part do
        local length = math.min(part, count - first + 1)
        local piece = trained(leaf(values:narrow(1, first, length), gradient:narrow(1, first, length):clone()), opts)
        assert.is_true(whole:narrow(1, first, length):equal(piece))
      end
    end
  end)

  it("costs nothing when memory ends: no update is half made, and nothing is left behind", function()
    optlua.manual_seed(8)
    local start = optlua.randn { 70, 65 }
    local function train()
      local optimizer = optim.AdamW({ { "w", leaf(start, start) }, { "v", leaf(start, start) } }, { state_dtype = "8bit-all" })
      for _ = 1, 2 do optimizer:step() end
      return optimizer:state_dict()
    end
    local kept_state = train() -- then its programs are known
    assert.is_true(files.fail_allocations(function() train() end) > 10)
    local optimizer = optim.AdamW({ { "w", leaf(start, start) }, { "v", leaf(start, start) } }, { state_dtype = "bfloat16" })
    local function load() said(optimizer.load_state_dict, optimizer, kept_state) end
    load() -- then it has states
    assert.is_true(files.fail_allocations(load) > 5)
  end)

  local place
  before_each(function() place = process.folder() end)
  after_each(function() process.remove(place) end)

  local function run(environment, from, to)
    local root = process.run(".", "pwd").out:gsub("\n", "")
    local got = process.run(root, ("%s optlua tests/narrowed.lua %s %d %d"):format(environment, place, from, to))
    assert.equal("", got.err)
    assert.equal(0, got.code)
    return got.out
  end

  it("gives the same bits on 1, 2 and 3 threads, and on every instruction set", function()
    local wanted = run("OMP_NUM_THREADS=1", 0, 4)
    assert.equal(wanted, run("OMP_NUM_THREADS=2", 0, 4))
    for _, isa in ipairs { "avx512f", "avx", "sse2", "scalar" } do
      assert.equal(wanted, run("OMP_NUM_THREADS=3 OPTLUA_ISA=" .. isa, 0, 4))
    end
  end)

  it("goes on in another process as if it had not stopped", function()
    local wanted = run("OMP_NUM_THREADS=2", 0, 6)
    run("OMP_NUM_THREADS=2", 0, 3)
    assert.equal(wanted, run("OMP_NUM_THREADS=1", 3, 6))
  end)
end)

describe("the storage of states", function()
  -- What the states of a matrix are stored in after an update.
  local function dtypes(class, opts, rows, columns)
    local net = nn.Linear(columns or 64, rows or 64, { bias = false })
    net.weight.grad = optlua.ones(net.weight.shape)
    local optimizer = optim.container(net, class, opts)
    optimizer:step()
    local found = {}
    for name, value in pairs(optimizer:state_dict()) do
      local slot = name:match "^state%.weight%.(.*)$"
      if slot and slot ~= "step" then found[slot] = value.dtype end
    end
    return found, optimizer
  end

  it("is as the words say: positive states are bfloat16 beside 8 bits, or 8 bits too", function()
    assert.same({ exp_avg = "uint8", exp_avg_sq = "bfloat16" }, (dtypes("AdamW", { state_dtype = "8bit" })))
    assert.same({ exp_avg = "uint8", exp_avg_sq = "uint8" }, (dtypes("AdamW", { state_dtype = "8bit-all" })))
    assert.same({ exp_avg = "float64", exp_avg_sq = "float64" }, (dtypes("AdamW", { state_dtype = "float64" })))
  end)

  it("is chosen by state", function()
    assert.same({ exp_avg = "uint8", exp_avg_sq = "float32" }, (dtypes("AdamW", { state_dtype = { exp_avg = "8bit" } })))
    assert.same({ exp_avg = "bfloat16", exp_avg_sq = "uint8" },
      (dtypes("AdamW", { state_dtype = { exp_avg = "bfloat16", exp_avg_sq = "8bit-all" } })))
    local text = optim.AdamW:program { state_dtype = "bfloat16", state_rounding = { exp_avg = "stochastic" } }
    assert.matches("exp_avg = bfloat16%(t%d, stochastic%)", text)
    assert.matches("exp_avg_sq = bfloat16%(t%d, stochastic%)", text)
    text = optim.AdamW:program { state_dtype = "8bit", state_rounding = "nearest" }
    assert.matches("exp_avg = 8bit%(t%d%)", text)
    assert.matches("exp_avg_sq = bfloat16%(t%d%)", text)
    assert.matches("18.03 bytes an element", text)
  end)

  it("leaves small parameters, states of another shape, averages and copies of the parameter as they are", function()
    assert.same({ exp_avg = "float32", exp_avg_sq = "float32" }, (dtypes("AdamW", { state_dtype = "8bit" }, 63, 65)))
    assert.same({ exp_avg = "uint8", exp_avg_sq = "bfloat16", ema = "float32" }, (dtypes("AdamW", { state_dtype = "8bit", ema = 0.9 })))
    for _, dtype in pairs((dtypes("Adafactor", { state_dtype = "8bit-all" }))) do assert.equal("float32", dtype) end
    local Copy = optim.define { name = "Copy", state = { copy = "param" }, update = function(p, g, s)
      s.copy = s.copy - 1e-6 * g
      return p
    end }
    assert.same({ copy = "float32" }, (dtypes(Copy, { state_dtype = "bfloat16" })))
  end)

  it("begins with what the class says", function()
    local Begin = optim.define { name = "Begin", state = { a = 0.75, b = { init = 2, positive = true } },
      update = function(p, _, s)
        s.a, s.b = s.a, s.b
        return p
      end }
    local optimizer = Begin({ { "w", leaf(optlua.zeros { 5000 }, optlua.ones { 5000 }) } }, { state_dtype = "8bit-all" })
    optimizer:step()
    local state = optimizer:state_dict()
    assert.equal(0.75, state["scale.w.a"]:min():item())
    assert.equal(127, state["state.w.a"]:min():item())
    assert.equal(2, state["scale.w.b"]:max():item())
    assert.equal(255, state["state.w.b"]:min():item())
  end)

  it("rounds as the class declares, where nobody says otherwise", function()
    local Slow = optim.define { name = "Slow", state = { average = { rounding = "stochastic" }, size = { positive = true, rounding = "nearest" } },
      update = function(p, g, s)
        s.average, s.size = g, optim.abs(g)
        return p
      end }
    local text = Slow:program { state_dtype = "bfloat16" }
    assert.matches("average = bfloat16%(.-, stochastic%)", text)
    assert.matches("size = bfloat16%(t%d%)", text)
    assert.is_nil((Slow:program { state_dtype = "bfloat16", state_rounding = "nearest" }):find "stochastic")
    assert.is_nil((Slow:program {}):find "stochastic")
    assert.matches("exp_avg_slow bfloat16 %(stochastic%)", (select(2, dtypes("AdEMAMix", { state_dtype = "bfloat16" })):plan()))
    fails('Bad: state: a: rounding: "nearest" or "stochastic" expected', optim.define,
      { name = "Bad", state = { a = { rounding = "up" } }, update = function(p) return p end })
  end)

  it("is shown by the plan, with its bytes", function()
    local _, optimizer = dtypes("AdamW", { state_dtype = "8bit" })
    assert.matches("states: exp_avg 8bit, exp_avg_sq bfloat16 %(stochastic%)", optimizer:plan())
    assert.equal(4096 + 4 * 16 + 2 * 4096, optimizer:stats().state_bytes)
    assert.matches("12.1 KiB of state", optimizer:plan())
    assert.is_nil((select(2, dtypes("AdamW", {})):plan():find "states:"))
  end)

  it("is that of the group, where it says something", function()
    local net = nn.Sequential { nn.Linear(64, 64), nn.Linear(64, 64) }
    local optimizer = optim.container(net, {
      { name = "a", match = "0.*", class = "AdamW", state_dtype = "bfloat16", state_rounding = "nearest" },
      { name = "b", match = "*", class = "SGD", momentum = 0.9, lr = 1 },
    }, { state_dtype = { exp_avg = "8bit", momentum_buffer = "8bit" }, state_rounding = "stochastic" })
    local plan = optimizer:plan()
    assert.matches("states: exp_avg bfloat16, exp_avg_sq bfloat16\n", plan)
    assert.matches("states: momentum_buffer 8bit %(stochastic%)", plan)
  end)

  it("is refused where it says what is not", function()
    local net = nn.Linear(64, 64)
    local function make(opts) return function() optim.container(net, "AdamW", opts) end end
    fails('state_dtype: expected one of "bfloat16", "8bit"', make { state_dtype = "4bit" })
    fails('state_dtype.exp_avg: expected one of "bfloat16"', make { state_dtype = { exp_avg = "4bit" } })
    fails('state_dtype: unknown state "exp_av" %(did you mean "exp_avg"%?%)', make { state_dtype = { exp_av = "8bit" } })
    fails('state_rounding: expected one of "nearest"', make { state_rounding = "up" })
    fails('state_rounding.exp_avg: expected one of "nearest"', make { state_rounding = { exp_avg = true } })
    fails('state_rounding: unknown state "x"', make { state_rounding = { x = "nearest" } })
    fails("state_dtype: expected a string or a table, got 8", make { state_dtype = 8 })
    fails("group 'default': state_dtype: unknown state", function() optim.AdamW(net, { state_dtype = { m = "8bit" } }) end)
    fails("group 'group1': state_dtype: unknown state", optim.container, net, { { match = "*", class = "AdamW", state_dtype = { m = "8bit" } } })
    local Own = optim.define { name = "Own", state = { a = { dtype = "float32" } }, update = function(p) return p end }
    fails("the state 'a' is kept as its class says", function() Own(net, { state_dtype = { a = "8bit" } }) end)
  end)
end)

describe("saved narrow states", function()
  local function make(opts)
    local net = nn.Linear(70, 65)
    return optim.container(net, "AdamW", opts), net
  end

  local function trained(opts)
    optlua.manual_seed(6)
    local optimizer, net = make(opts)
    for k = 1, 3 do
      for _, p in ipairs(net:parameters()) do p.grad = (optlua.arange(p:numel()) + k):sin():reshape(p.shape) end
      optimizer:step()
    end
    return optimizer
  end

  it("are codes in uint8 with scales in float32, and the seed", function()
    local state = trained({ state_dtype = "8bit" }):state_dict()
    assert.equal("uint8", state["state.weight.exp_avg"].dtype)
    assert.same({ 65, 70 }, state["state.weight.exp_avg"].shape)
    assert.equal("float32", state["scale.weight.exp_avg"].dtype)
    assert.same({ 18 }, state["scale.weight.exp_avg"].shape)
    assert.equal(6, state["group.default.rounding_seed"])
    assert.is_nil(state["scale.bias.exp_avg"])
    assert.is_nil(trained({}):state_dict()["group.default.rounding_seed"])
  end)

  it("are loaded as they are", function()
    local state = trained({ state_dtype = "8bit-all" }):state_dict()
    optlua.manual_seed(7)
    local other = make { state_dtype = "8bit-all" }
    assert.equal("", said(function() other:load_state_dict(state) end))
    for name, value in pairs(other:state_dict()) do
      assert.same(optlua.is_tensor(value) and numbers(value) or value, optlua.is_tensor(state[name]) and numbers(state[name]) or state[name])
    end
  end)

  it("are converted from and to what an optimizer stores, which is said", function()
    local narrow = trained({ state_dtype = "8bit-all" }):state_dict()
    local wide = make {}
    assert.equal("optim.container: states were saved as 8bit, and are stored as float32\n", said(function() wide:load_state_dict(narrow) end))
    local values = numbers(wide:state_dict()["state.weight.exp_avg_sq"])
    local back = make { state_dtype = "8bit-all" }
    assert.matches("float32, and are stored as 8bit", said(function() back:load_state_dict(wide:state_dict()) end))
    assert.same(numbers(narrow["state.weight.exp_avg_sq"]), numbers(back:state_dict()["state.weight.exp_avg_sq"]))
    local half = make { state_dtype = "bfloat16" }
    assert.matches("8bit, and are stored as bfloat16", said(function() half:load_state_dict(narrow) end))
    local got = numbers(half:state_dict()["state.weight.exp_avg_sq"])
    for k, value in ipairs(values) do assert.is_true(math.abs(got[k] - value) <= value / 256) end
    said(function() wide:load_state_dict(half:state_dict()) end)
    assert.same(got, numbers(wide:state_dict()["state.weight.exp_avg_sq"]))
  end)

  it("are refused where they do not fit, and nothing is loaded", function()
    local optimizer = trained { state_dtype = "8bit" }
    local before = numbers(optimizer:state_dict()["state.weight.exp_avg"])
    local function spoilt(key, value)
      local state = optimizer:state_dict()
      state[key] = value
      return function() optimizer:load_state_dict(state) end
    end
    fails("scale.weight.exp_avg: float32 %(18%) expected, got float32 %(17%)", spoilt("scale.weight.exp_avg", optlua.ones { 17 }))
    fails("state.weight.exp_avg: 8bit %(65, 70%) expected, got uint8 %(65, 70%)", spoilt("scale.weight.exp_avg", nil))
    fails("state.weight.exp_avg: 8bit %(65, 70%) expected, got int64 %(65, 70%)",
      spoilt("state.weight.exp_avg", optlua.zeros({ 65, 70 }, { dtype = "int64" })))
    fails("group.default.rounding_seed: an integer expected, got x", spoilt("group.default.rounding_seed", "x"))
    assert.same(before, numbers(optimizer:state_dict()["state.weight.exp_avg"]))
    local double = optim.AdamW { { "weight", leaf(optlua.zeros({ 65, 70 }, { dtype = "float64" })) } }
    local single_ = optim.AdamW { { "weight", leaf(optlua.zeros { 65, 70 }, optlua.ones { 65, 70 }) } }
    single_:step()
    fails("float64 %(65, 70%) expected, got float32", function() double:load_state_dict(single_:state_dict()) end)
  end)
end)
