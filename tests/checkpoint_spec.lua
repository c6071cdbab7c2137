-- Checkpoints: written whole or not at all, loaded by name or not at all; runs go on bit for bit.
local optlua = require "optlua"
local bits = require "bits"
local checkpoint = optlua.checkpoint
local folder = require "optlua.checkpoint.folder"
local process = require "process"
local nn, optim, schedule = optlua.nn, optlua.optim, optlua.schedule

local fails = require("fails").matching

local place
before_each(function() place = process.folder() end)
after_each(function() process.remove(place) end)

local function parts(class, opts)
  local model = nn.Sequential { nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2) }
  local of = class or "AdamW"
  if optim.resolve(of):refuses(model[1].bias, "bias") then -- it wants matrices: Muon
    of = { { class = of, match = { "0.weight", "2.weight" } }, { name = "others", class = "SGD", match = "*" } }
  end
  local optimizer = optim.container(model, of, opts or { lr = 0.1 })
  local scheduler = optim.lr_scheduler(optimizer, schedule.linear { to = 0, steps = 50 })
  return { model = model, optimizer = optimizer, scheduler = scheduler }
end

local function step(given)
  local x = optlua.randn { 8, 3 }
  given.optimizer:step(function()
    given.optimizer:zero_grad()
    local loss = given.model(x):dropout(0.5, true):square():sum()
    loss:backward()
    return loss
  end)
end

describe("a checkpoint", function()
  it("brings back weights, buffers, states, schedules, random numbers, freezing and values of the script", function()
    for _, class in ipairs(optim.list()) do
      optlua.manual_seed(1)
      local given = parts(class)
      for _ = 1, 3 do step(given) end
      given.model[3].bias.requires_grad = false
      given.extra = { step = 3, best = math.huge, list = { 1, 2.5 }, name = "x", none = {} }
      checkpoint.save(place .. "/a", given)
      for _ = 1, 3 do step(given) end
      local wanted = bits(given.model, given.optimizer)
      local other = parts(class)
      local extra = checkpoint.load(place .. "/a", { model = other.model, optimizer = other.optimizer, scheduler = other.scheduler })
      assert.same({ step = 3, best = math.huge, list = { 1, 2.5 }, name = "x", none = {} }, extra)
      assert.is_false(other.model[3].bias.requires_grad)
      for _ = 1, 3 do step(other) end
      assert.equal(wanted, bits(other.model, other.optimizer))
    end
  end)

  it("wins over what the optimizer was made with, and a schedule of the script over that of the checkpoint", function()
    local given = parts("SGD", { lr = 0.5, momentum = 0.5, max_norm = 2 })
    for _ = 1, 3 do step(given) end
    checkpoint.save(place .. "/a", given)
    local other = parts("SGD", { lr = 1, momentum = 0, max_norm = 1 })
    other.scheduler = optim.lr_scheduler(other.optimizer, function(t) return t == 2 and 0.125 or 1 end) -- of the last update
    local _, differences = checkpoint.load(place .. "/a", other)
    assert.matches("^default.lr: another schedule than when it was saved", differences[1])
    local group = other.optimizer.groups.default
    assert.same({ 0.5 * 0.125, 0.5, 2 }, { group.lr, group.momentum, other.optimizer.max_norm })
    group.momentum = 0.75 -- after it, the script's
    assert.equal(0.75, group.momentum)
  end)

  it("replaces an older one of its name at once, and leaves nothing else", function()
    local given = parts()
    checkpoint.save(place .. "/a", given)
    step(given)
    checkpoint.save(place .. "/a", given)
    assert.equal(1, given.optimizer:stats().updates)
    local other = parts()
    checkpoint.load(place .. "/a", { model = other.model, optimizer = other.optimizer })
    assert.equal(1, other.optimizer:stats().updates)
    assert.equal("a\n", process.run(place, "ls -A").out)
  end)

  it("is written by one process at a time: the second is refused, and nothing is mixed", function()
    local given = parts()
    checkpoint.save(place .. "/a", given)
    process.write(place .. "/slow.lua", [[
      local optlua = require "optlua"
      local model = optlua.nn.Linear(2, 2)
      local save = model.save
      rawset(model, "save", function(self, path)
        save(self, path)
        io.open("ready", "w"):close()
        io.popen("timeout 60 sh -c 'while [ ! -e go ]; do sleep 0.01; done'"):close()
      end)
      optlua.checkpoint.save("a", { model = model, extra = { by = "slow" } })
    ]])
    process.run(place, "optlua slow.lua >slow.txt 2>&1 & timeout 60 sh -c 'while [ ! -e ready ]; do sleep 0.01; done'")
    fails("a: another process is writing it", checkpoint.save, place .. "/a", given)
    assert.same({}, checkpoint.load(place .. "/a", given))
    process.run(place, "touch go; timeout 60 sh -c 'while [ -e a.writing ] || ! grep -q slow a/run.json; do sleep 0.01; done'")
    assert.same({ by = "slow" }, checkpoint.load(place .. "/a", { model = nn.Linear(2, 2) }))
    process.run(place, "mkdir a.writing; touch a.writing/left") -- by one that was killed
    checkpoint.save(place .. "/a", given)
    assert.equal("run.json\nweights.safetensors\n", process.run(place, "ls a; ls -d a.writing 2>/dev/null").out)
  end)

  it("refuses what cannot be saved, by name, before anything is written (case 50)", function()
    local given = parts()
    given.extra = { deep = { callback = print } }
    fails("checkpoint.save.extra.deep.callback: a function cannot be saved", checkpoint.save, place .. "/a", given)
    given.extra = { t = optlua.zeros(1) }
    fails("extra.t: a tensor cannot be saved", checkpoint.save, place .. "/a", given)
    given.extra = { [5] = 1, x = 2 }
    fails("a key that is a number cannot be saved", checkpoint.save, place .. "/a", given)
    given.extra = {}
    given.extra.self = given.extra
    fails("a table that contains itself", checkpoint.save, place .. "/a", given)
    fails('unknown part "modle" %(did you mean "model"', checkpoint.save, place .. "/a", { modle = {} })
    fails("model: a table without named_parameters is none", checkpoint.save, place .. "/a", { model = {} })
    fails("scheduler: a table without load_state_dict is none", checkpoint.load, place .. "/a", { scheduler = { given.scheduler } })
    fails("gradients are those of a model, and there is none", checkpoint.save, place .. "/a", { optimizer = given.optimizer, gradients = true })
    for _, what in ipairs { "save", "load", "lock", "list", "read", "prune", "latest", "best", "verify" } do
      fails("^[^:]*:%d+: checkpoint.%a+: path: a string expected, got nil", checkpoint[what], nil, what == "best" and "min" or nil)
    end
    assert.equal("", process.run(place, "ls -A").out)
  end)

  it("that is damaged or does not fit raises, all by name, and changes nothing", function()
    local given = parts()
    for _ = 1, 2 do step(given) end
    checkpoint.save(place .. "/a", given)
    local other = parts()
    local before = bits(other.model)
    local function refuses(wanted, loaded)
      fails(wanted, checkpoint.load, place .. "/a", loaded or { model = other.model, optimizer = other.optimizer })
      assert.equal(before, bits(other.model))
      assert.equal(0, other.optimizer:stats().updates)
    end
    local small = nn.Linear(3, 4)
    fails("missing: weight.*unexpected: 0.bias", checkpoint.load, place .. "/a", { model = small })
    refuses("the state does not fit", { model = other.model, optimizer = optim.SGD(other.model, { momentum = 0.5 }) })
    refuses("it holds no loader", { loader = optlua.data.loader({ n = 1, get = print }) })
    process.run(place, "printf x >>a/weights.safetensors")
    refuses("weights.safetensors: %d+ bytes, %d+ were written")
    checkpoint.save(place .. "/a", given)
    process.run(place, "printf x | dd of=a/optimizer.safetensors bs=1 seek=900 conv=notrunc")
    refuses("optimizer.safetensors: the checksum is another one")
    process.run(place, "rm a/optimizer.safetensors")
    refuses("optimizer.safetensors: No such file")
    process.write(place .. "/a/run.json", '{"format":1')
    refuses("run.json: line 1")
    process.write(place .. "/a/run.json", '{"format":99}')
    refuses("format 99 is newer than this version of optlua knows")
  end)
end)

describe("what a scheduler, a loader or the generator refuses", function()
  it("is known before anything has changed", function()
    local given = parts()
    given.loader = optlua.data.loader(optlua.testing.points { n = 40 }, { batch_size = 2 })
    for _ = 1, 2 do step(given) end
    given.scheduler:step()
    given.loader:load_state_dict { seed = 5, epoch = 3, position = 18 }
    checkpoint.save(place .. "/a", given)
    local other = parts()
    other.loader = optlua.data.loader(optlua.testing.points { n = 10 }, { batch_size = 2 })
    local before, rng, loader, scheduler = bits(other.model), optlua.get_rng_state(), other.loader:state_dict(), other.scheduler:state_dict()
    local function unchanged()
      assert.equal(before, bits(other.model))
      assert.equal(0, other.optimizer:stats().updates)
      assert.same({ rng, loader, scheduler }, { optlua.get_rng_state(), other.loader:state_dict(), other.scheduler:state_dict() })
    end
    fails("checkpoint.load: loader: .*position.*18", checkpoint.load, place .. "/a", other)
    unchanged()
    optim.lr_scheduler(other.optimizer, schedule.constant { factor = 0.5 })
    other.scheduler = optim.lr_scheduler(other.optimizer, schedule.linear { to = 0.5, steps = 50 })
    scheduler = other.scheduler:state_dict()
    local message = fails("checkpoint.load: scheduler: .*another schedule", checkpoint.load, place .. "/a", other, { resume = "error" })
    assert.matches("checkpoint.load: loader: ", message)
    unchanged()
    local text = process.read(place .. "/a/run.json")
    process.write(place .. "/a/run.json", (text:gsub('"rng": ?%b{}', '"rng": {"odd": 1}'):gsub('"checksum": %d+,', "")))
    fails("checkpoint.load: generator: ", checkpoint.load, place .. "/a", other)
    unchanged()
  end)
end)

describe("a checkpoint of another model", function()
  local function trained(layers, class)
    optlua.manual_seed(5)
    local model = nn.Sequential(layers)
    local given = { model = model, optimizer = optim[class or "AdamW"](model, { lr = 0.1 }) }
    for _ = 1, 2 do
      given.optimizer:zero_grad()
      model(optlua.randn { 3, 4 }):square():sum():backward()
      given.optimizer:step()
    end
    return given
  end

  local function state_of(given, key) return given.optimizer:state_dict()["state." .. key] end

  it("is loaded through a function that gives other names, to states too", function()
    local old, new = trained { nn.Linear(4, 2) }, trained { nn.Linear(4, 2) }
    old.model[1].bias.requires_grad = false
    checkpoint.save(place .. "/a", old)
    local alone = { model = nn.Linear(4, 2) }
    alone.optimizer = optim.AdamW(alone.model)
    checkpoint.load(place .. "/a", alone, { surgery = function(saved)
      saved:rename(function(name) return (name:gsub("^0%.", "")) end)
    end })
    assert.equal(2, alone.optimizer:stats().updates)
    assert.is_true(state_of(alone, "weight.exp_avg"):equal(state_of(old, "0.weight.exp_avg")))
    assert.is_true(alone.model.weight:equal(old.model[1].weight))
    assert.is_false(alone.model.bias.requires_grad)
    checkpoint.load(place .. "/a", new, { surgery = function(saved)
      saved:rename("0.weight", "x")
      saved:rename("x", "0.weight")
      saved:forget "*.weight"
    end })
    assert.equal(0, state_of(new, "0.weight.step"))
    assert.equal(2, state_of(new, "0.bias.step"))
  end)

  it("is cut and joined along dimensions, states too, and goes on as it would have", function()
    local class = nn.class "Cut"
    function class:init() -- luacheck: ignore
      self.q = nn.Linear(4, 2, { bias = false })
      self.k = nn.Linear(4, 6, { bias = false })
    end
    function class:forward(x) return optlua.cat({ self.q(x), self.k(x) }, 2) end
    local whole, cut = trained { nn.Linear(4, 8, { bias = false }) }, trained { class() }
    checkpoint.save(place .. "/whole", whole)
    checkpoint.load(place .. "/whole", cut, { surgery = function(saved)
      saved:split("0.weight", { "0.q.weight", "0.k.weight" }, { sizes = { 2, 6 } })
    end })
    local x = optlua.randn { 3, 4 }
    for _, given in ipairs { whole, cut } do
      given.optimizer:zero_grad()
      given.model(x):square():sum():backward()
      given.optimizer:step()
    end
    local function same(a, b) assert.is_true((a - b):abs():max():item() < 1e-6) end
    same(whole.model[1].weight:narrow(1, 3, 6), cut.model[1].k.weight)
    same(state_of(whole, "0.weight.exp_avg_sq"):narrow(1, 1, 2), state_of(cut, "0.q.weight.exp_avg_sq"))
    checkpoint.save(place .. "/cut", cut)
    local again = trained { nn.Linear(4, 8, { bias = false }) }
    checkpoint.load(place .. "/cut", again, { surgery = function(saved) saved:join({ "0.q.weight", "0.k.weight" }, "0.weight") end })
    same(whole.model[1].weight, again.model[1].weight)
    same(state_of(whole, "0.weight.exp_avg"), state_of(again, "0.weight.exp_avg"))
    assert.equal(3, state_of(again, "0.weight.step"))
  end)

  it("keeps what is frozen asleep, in pieces and joined", function()
    local old = trained { nn.Linear(4, 4, { bias = false }) }
    old.model:requires_grad_(false)
    checkpoint.save(place .. "/a", old)
    local class = nn.class "Cut"
    function class:init() self.a, self.b = nn.Linear(4, 2, { bias = false }), nn.Linear(4, 2, { bias = false }) end -- luacheck: ignore
    local cut = nn.Sequential { class() }
    checkpoint.load(place .. "/a", { model = cut }, { surgery = function(saved) saved:split("0.weight", { "0.a.weight", "0.b.weight" }) end })
    assert.same({ false, false }, { cut[1].a.weight.requires_grad, cut[1].b.weight.requires_grad })
    checkpoint.save(place .. "/b", { model = cut })
    local again = nn.Sequential { nn.Linear(4, 4, { bias = false }) }
    checkpoint.load(place .. "/b", { model = again }, { surgery = function(saved) saved:join({ "0.a.weight", "0.b.weight" }, "0.weight") end })
    assert.is_false(again[1].weight.requires_grad)
  end)

  it("is refused by name where surgery makes no sense, and nothing changes", function()
    local given = trained { nn.Linear(4, 4) }
    checkpoint.save(place .. "/a", given)
    local before = bits(given.model)
    local function refuses(wanted, fn) fails(wanted, checkpoint.load, place .. "/a", given, { surgery = fn }) end
    refuses('rename: unknown name "0.wieght" %(did you mean "0.weight"', function(s) s:rename("0.wieght", "x") end)
    refuses('"0.bias" and "0.weight" both become "x"', function(s) s:rename(function() return "x" end) end)
    refuses("drop: nothing is called nothing.%*", function(s) s:drop "nothing.*" end)
    refuses("split: 0.weight: 4 cannot be cut into 3 equal pieces", function(s) s:split("0.weight", { "a", "b", "c" }) end)
    refuses("2 sizes that make 4 expected, got 2 that make 5", function(s) s:split("0.weight", { "a", "b" }, { sizes = { 2, 3 } }) end)
    refuses("has 1 dimensions, and none is 2", function(s) s:split("0.bias", { "a", "b" }, { dim = 2 }) end)
    refuses("there is a 0.bias already", function(s) s:split("0.weight", { "0.bias", "b" }) end)
    refuses("surgery: forget: nothing is called zzz%*; there are: ", function(s) s:forget "zzz*" end)
    refuses("step of 0.weight is 2, that of 0.bias is 0; forget them first", function(s)
      s.state["state.0.bias.step"] = 0
      s:join({ "0.weight", "0.bias" }, "x")
    end)
    refuses("join: 0.weight is named twice", function(s) s:join({ "0.weight", "0.weight" }, "x") end)
    refuses("join: names expected, got a number", function(s) s:join({ 1 }, "0.weight") end)
    refuses("join: 0.bias is frozen, 0.weight is not", function(s)
      s.frozen = { "0.bias" }
      s:join({ "0.weight", "0.bias" }, "x")
    end)
    refuses("join: 0.bias is frozen, 0.weight is not", function(s)
      s.frozen = { "0.bias" }
      s:join({ "0.bias", "0.weight" }, "x")
    end)
    refuses("weights: tensors by name expected, got x = 1", function(s) s.weights.x = 1 end)
    refuses("missing: state.0.weight.step.*unexpected: state.x.*missing: 0.weight\n +unexpected: x", function(s) s:rename("0.weight", "x") end)
    assert.equal(before, bits(given.model))
    local factored = trained({ nn.Linear(4, 4) }, "Adafactor")
    checkpoint.save(place .. "/f", factored)
    fails('forget%("0.weight"%) lets it begin anew', checkpoint.load, place .. "/f", factored,
      { surgery = function(s) s:split("0.weight", { "a", "b" }) end })
  end)

  it("keeps codes of 8 bits with their scales, which are not cut", function()
    local function coded(layers)
      optlua.manual_seed(5)
      local model = nn.Sequential(layers)
      local given = { model = model, optimizer = optim.container(model, "AdamW", { state_dtype = "8bit-all" }) }
      model(optlua.randn { 3, 128 }):square():sum():backward()
      given.optimizer:step()
      return given
    end
    local old, new = coded { nn.Linear(128, 128) }, coded { nn.Identity(), nn.Linear(128, 128) }
    assert.equal("uint8", state_of(old, "0.weight.exp_avg").dtype)
    checkpoint.save(place .. "/a", old)
    checkpoint.load(place .. "/a", new, { surgery = function(saved)
      saved:rename(function(name) return (name:gsub("^0", "1")) end)
    end })
    for _, key in ipairs { "state.%s.weight.exp_avg", "scale.%s.weight.exp_avg" } do
      assert.is_true(new.optimizer:state_dict()[key:format(1)]:equal(old.optimizer:state_dict()[key:format(0)]))
    end
    local function cut(saved) saved:split("0.weight", { "1.weight", "x" }, { sizes = { 127, 1 } }) end
    fails('forget%("0.weight"%) lets it begin anew', checkpoint.load, place .. "/a", new, { surgery = cut })
    local _, _, report = checkpoint.load(place .. "/a", new, { strict = false, surgery = function(saved)
      saved:forget "0.weight"
      saved:split("0.weight", { "y", "x" }, { sizes = { 127, 1 } })
    end })
    assert.same({ "0.bias", "x", "y" }, report.model.unexpected)
  end)

  it("is reported whole in one error; with strict = false what is missing begins anew", function()
    local old, new = trained { nn.Linear(4, 2) }, trained { nn.Linear(4, 2, { bias = false }), nn.Linear(2, 2, { bias = false }) }
    checkpoint.save(place .. "/a", old)
    local before = bits(new.model)
    local message = fails("missing: state.1.weight.step", checkpoint.load, place .. "/a", new)
    for _, part in ipairs { "unexpected: state.0.bias", "missing: 1.weight", "unexpected: 0.bias" } do assert.matches(part, message) end
    assert.equal(before, bits(new.model))
    local kept = new.model[2].weight:clone()
    local _, _, report = checkpoint.load(place .. "/a", new, { strict = false })
    assert.same({ missing = { "1.weight" }, unexpected = { "0.bias" } }, report.model)
    assert.same({ "state.1.weight.step" }, report.optimizer.missing)
    assert.is_true(new.model[1].weight:equal(old.model[1].weight))
    assert.is_true(new.model[2].weight:equal(kept))
    assert.equal(0, state_of(new, "1.weight.step"))
    assert.equal(2, state_of(new, "0.weight.step"))
    local other = trained { nn.Linear(4, 3) }
    fails("differing: state.0.bias.exp_avg.*differing: 0.weight", checkpoint.load, place .. "/a", other, { strict = false })
  end)
end)

describe("a checkpoint with optimizers of other make", function()
  it("holds tensors that are in tables of theirs", function()
    local function build()
      local own = { memory = { rows = { optlua.zeros(2), optlua.ones(3) }, count = 1 }, flat = optlua.ones(1) }
      function own.step() end
      function own.zero_grad() end
      function own.state_dict() return { memory = own.memory, flat = own.flat } end
      function own.load_state_dict(_, state) own.memory, own.flat = state.memory, state.flat end
      local class = optim.wrapper { name = "Foreign", build = function() return { own } end }
      local model = nn.Linear(2, 2)
      return { model = model, optimizer = optim.container(model, class) }, own
    end
    local given, own = build()
    own.memory.rows[1]:fill_(7)
    own.flat = optlua.zeros(1)
    checkpoint.save(place .. "/a", given)
    local other, others = build()
    checkpoint.load(place .. "/a", other)
    assert.equal(bits(given.optimizer), bits(other.optimizer))
    assert.same({ 7, 7 }, others.memory.rows[1]:totable())
    own.memory.more = setmetatable({}, {})
    fails("optimizer.member.default.memory.more: a table cannot be saved", checkpoint.save, place .. "/b", given)
    assert.matches("optimizer.member.default.memory.rows.2  float32 %(3%)", process.run(place, "optlua ckpt show a").out)
    assert.equal("they are the same\n", process.run(place, "optlua ckpt diff a a").out)
  end)

  it("is loaded whole or not at all", function()
    local function foreign(refuses)
      local own = { count = 0 }
      function own.step() own.count = own.count + 1 end
      function own.zero_grad() end
      function own.state_dict() return { count = own.count } end
      function own.load_state_dict(_, state)
        own.count = state.count
        if refuses and state.count == 1 then error "this state is not mine" end
      end
      return own
    end
    local function build(refuses)
      local made, model = {}, nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) }
      local class = optim.wrapper { name = "Foreign", build = function()
        made[1], made[2] = foreign(false), foreign(refuses)
        return made
      end }
      return { model = model, optimizer = optim.container(model, class) }, made
    end
    local given, made = build(false)
    given.model(optlua.ones { 1, 2 }):sum():backward()
    given.optimizer:step()
    assert.same({ 1, 1 }, { made[1].count, made[2].count })
    checkpoint.save(place .. "/a", given)
    local other, others = build(true)
    local before = bits(other.model)
    fails("this state is not mine", checkpoint.load, place .. "/a", other)
    assert.same({ 0, 0 }, { others[1].count, others[2].count })
    assert.equal(before, bits(other.model))
    other, others = build(false)
    checkpoint.load(place .. "/a", other)
    assert.same({ 1, 1 }, { others[1].count, others[2].count })
  end)
end)

describe("a save between two backward passes", function()
  it("keeps the gradients where that is asked for", function()
    local function begin()
      optlua.manual_seed(2)
      local given = parts()
      given.optimizer:zero_grad()
      return given
    end
    local function half(given) given.model(optlua.ones { 8, 3 }):square():sum():backward() end
    local whole = begin()
    half(whole)
    whole.gradients = true
    checkpoint.save(place .. "/a", whole)
    half(whole)
    whole.optimizer:step()
    local other = begin()
    checkpoint.load(place .. "/a", { model = other.model, optimizer = other.optimizer })
    half(other)
    other.optimizer:step()
    assert.equal(bits(whole.model), bits(other.model))
    fails("gradients: a boolean expected, got a table", checkpoint.save, place .. "/b", { model = whole.model, gradients = {} })
    local small = nn.Sequential { nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, { bias = false }) }
    fails("gradients: unexpected: 2.bias", checkpoint.load, place .. "/a", { model = small }, { strict = false })
    checkpoint.load(place .. "/a", { model = small }, { surgery = function(saved) saved:drop "2.bias" end })
    assert.is_true(small[3].weight.grad ~= nil)
  end)
end)

describe("a checkpoint of format 1", function()
  it("is read by a rule, shown as it was, and loads", function()
    local model = nn.Linear(2, 1)
    local given = { model = model, optimizer = optim.AdamW(model), loader = optlua.data.loader(optlua.testing.points { n = 12 }, { batch_size = 2, shuffle = true }) }
    given.scheduler = optim.lr_scheduler(given.optimizer, schedule.linear { to = 0, steps = 10 })
    local path = "tests/golden/checkpoint_1"
    assert.matches('"format": 1,', process.read(path .. "/run.json"))
    assert.same({}, checkpoint.verify(path))
    local extra = checkpoint.load(path, given)
    assert.same({ step = 3, note = "format 1" }, extra)
    assert.equal(3, given.optimizer:stats().updates)
    assert.is_false(model.bias.requires_grad)
    local saved, _, format = checkpoint.read(path)
    assert.same({ 2, 1, { optlua = "0.1.0" } }, { saved.format, format, saved.versions })
    assert.equal(process.read(path .. "/expected.txt"), bits(model) .. "\n")
  end)
end)

describe("many checkpoints", function()
  local function names_of(paths)
    local names = {}
    for k, path in ipairs(paths) do names[k] = path:match "[^/]+$" end
    return names
  end

  it("are listed by name; the latest is the last that is whole; litter is swept", function()
    local given = parts()
    assert.same({}, checkpoint.list(place))
    assert.is_nil((checkpoint.latest(place)))
    for _, name in ipairs { "step-1", "step-3", "step-2", "step-00000010", "step-100000000", "step-99999999" } do
      checkpoint.save(place .. "/" .. name, given)
    end
    assert.same({ "step-1", "step-2", "step-3", "step-00000010", "step-99999999", "step-100000000" }, names_of(checkpoint.list(place)))
    process.run(place, "rm -r step-00000010 step-100000000 step-99999999")
    process.run(place, "mkdir step-9.writing other; touch step-9.writing/x best.safetensors.77-0.tmp")
    assert.same({ place .. "/step-1", place .. "/step-2", place .. "/step-3" }, checkpoint.list(place))
    assert.equal(place .. "/step-3", (checkpoint.latest(place)))
    process.run(place, "printf x >>step-3/weights.safetensors")
    local found, damaged = checkpoint.latest(place)
    assert.same({ place .. "/step-2", { place .. "/step-3" } }, { found, damaged })
    folder.sweep(place)
    assert.equal("other\nstep-1\nstep-2\nstep-3\n", process.run(place, "ls").out)
  end)
end)

describe("a path", function()
  it("may be that of a run wherever many are asked for; what is no path is named", function()
    local model = nn.Linear(2, 1)
    for k = 1, 3 do checkpoint.save(("%s/run/checkpoints/%d"):format(place, k), { model = model, value = k % 3 }) end
    process.write(place .. "/run/run.json", "{}")
    local own = place .. "/run/checkpoints"
    assert.same(checkpoint.list(own), checkpoint.list(place .. "/run/"))
    assert.equal(own .. "/3", (checkpoint.latest(place .. "/run")))
    assert.equal(own .. "/2", (checkpoint.best(place .. "/run", "max")))
    assert.same({}, checkpoint.list(place)) -- a run is no checkpoint
    fails("run: this is the folder of a run; its checkpoints are in .*run/checkpoints", checkpoint.load, place .. "/run", { model = model })
    fails("checkpoint.load: path: a string expected, got nil %(checkpoint.latest and best give nil", checkpoint.load, nil, { model = model })
    for _, name in ipairs { "save", "read", "verify", "list", "latest", "best", "prune", "lock" } do
      fails(("checkpoint.%s: path: a string expected, got a number"):format(name), checkpoint[name], 1, {})
    end
    fails('mode: expected one of "min", "max"; got nothing', checkpoint.best, place)
  end)
end)

describe("the best of many checkpoints", function()
  it("is found by its value, and kept beside the last few", function()
    assert.is_nil((checkpoint.best(place, "min")))
    for k, value in ipairs { 3, 1, 0 / 0, 2, 1, 4 } do
      checkpoint.save(("%s/step-%d"):format(place, k), { extra = { step = k }, value = value })
    end
    checkpoint.save(place .. "/step-7", { extra = {} })
    assert.same({ place .. "/step-2", 1 }, { checkpoint.best(place, "min") })
    assert.same({ place .. "/step-6", 4 }, { checkpoint.best(place, "max") })
    process.run(place, "rm step-2/run.json; mkdir step-2/x")
    assert.same({ place .. "/step-5", 1 }, { checkpoint.best(place, "min") })
    checkpoint.save(place .. "/step-3", { model = nn.Linear(1, 1), value = 0 })
    process.run(place, "printf x >>step-3/weights.safetensors") -- it is no best one
    local removed = checkpoint.prune(place, { last = 1, best = "min" })
    assert.equal(4, #removed)
    assert.same({ place .. "/step-5", place .. "/step-7" }, checkpoint.list(place))
    fails('mode: expected one of "min", "max"', checkpoint.best, place, "least")
    fails("best: expected one of", checkpoint.prune, place, { best = "least" })
  end)

  it("is due after so many updates or minutes", function()
    local due = checkpoint.timer { every = 3 }
    assert.same({ false, false, false, true, false }, { due(0), due(1), due(2), due(3), due(4) })
    due = checkpoint.timer { minutes = 1e-9 }
    local before = optlua.clock()
    repeat until optlua.clock() - before > 1e-6
    assert.is_true(due(1))
    assert.is_false(checkpoint.timer { minutes = 1000 }(1))
    fails("every, updates, or minutes expected", checkpoint.timer, {})
  end)

  it("lies in a folder that one process has for itself", function()
    process.run(place, "mkdir -p a/x.writing; touch a/x.json.12-0.tmp a/mine.tmp")
    local lock = checkpoint.lock(place .. "/a")
    assert.equal("lock\nmine.tmp\n", process.run(place, "ls a").out)
    process.write(place .. "/other.lua", 'require("optlua").checkpoint.lock "a"')
    assert.matches("other.lua:1: checkpoint.lock: a: another run is in this folder", process.run(place, "optlua other.lua").err)
    lock:close()
    lock:close()
    assert.equal(0, process.run(place, "optlua other.lua").code)
    assert.equal(0, process.run(place, "optlua other.lua").code)
  end)
end)

-- A run as a process, and what it left.
local SCRIPT = [[
local optlua = require "optlua"
local nn = optlua.nn
return optlua.spec {
  name = "resumed",
  config = { seed = 3, epochs = 6, batch_size = 5, accumulate = 2, eval_every = 4, checkpoint_every = 3, keep_last = 100,
    optimizer = { class = "AdamW", lr = 0.01, ema = 0.9 }, lr_scheduler = { class = "warmup_stable_decay", warmup_steps = 3 } },
  build_model = function() return nn.Sequential { nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3) } end,
  build_data = function() return optlua.testing.points { n = 33 }, optlua.testing.points { n = 12, seed = 1 } end,
  build_loss = function() return nn.CrossEntropyLoss() end,
  on_end = function() optlua.randn(5) end,
  on_step = function(state)
    if os.getenv "STOP_AT" == tostring(state.step) then io.popen("kill -" .. os.getenv "STOP_BY" .. " " .. os.getenv "RUN_ID"):close() end
  end,
}
]]

describe("a run", function()
  local function run(words, environment)
    return process.run(place, ("%s sh -c 'RUN_ID=$$ exec optlua script.lua %s'"):format(environment or "", words))
  end

  local function weights(name) return process.read(("%s/%s/last.safetensors"):format(place, name)) end

  before_each(function() process.write(place .. "/script.lua", SCRIPT) end)

  it("that was killed at any step goes on bit for bit", function()
    assert.equal(0, run("--out whole").code)
    for _, at in ipairs { 4, 7, 8, 11, 23 } do
      local name = "killed" .. at
      assert.not_equal(0, run("--out " .. name, "STOP_BY=KILL STOP_AT=" .. at).code)
      local resumed = run(("--out %s --resume"):format(name))
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(weights "whole", weights(name))
      assert.equal(process.read(place .. "/whole/best.safetensors"), process.read(place .. "/" .. name .. "/best.safetensors"))
    end
  end)

  it("counts validations without a better value on where it was", function()
    local words = " --optimizer.lr=0 --optimizer.ema=null --eval_every=2 --patience=4 --epochs=20 --lr_scheduler=null"
    local function last(name) return process.run(place, ("tail -n 1 %s/log.csv"):format(name)).out:match "^%d+" end
    assert.equal(0, run("--out whole" .. words).code)
    local ended = tonumber(last "whole")
    assert.not_equal(0, run("--out part" .. words, "STOP_BY=KILL STOP_AT=" .. ended - 1).code)
    local resumed = run("--out part --resume" .. words)
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(ended, tonumber(last "part"))
    assert.is_true(ended < 80)
  end)

  it("with narrow states, which round at random, or averages goes on bit for bit", function()
    for k, words in ipairs { "--optimizer.state_dtype=bfloat16", "--optimizer.state_dtype=8bit", "--optimizer.state_dtype=8bit-all",
      "--optimizer.ema=null --optimizer=ScheduleFreeAdamW", "--optimizer=Adafactor --optimizer.max_norm=1" } do
      local whole, part = "whole" .. k, "part" .. k
      assert.equal(0, run(("--out %s --steps=20 %s"):format(whole, words)).code, words)
      assert.not_equal(0, run(("--out %s --steps=20 %s"):format(part, words), "STOP_BY=KILL STOP_AT=11").code)
      local resumed = run(("--out %s --resume --steps=20 %s"):format(part, words))
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(weights(whole), weights(part), words)
      assert.equal("they are the same\n", process.run(place, ("optlua ckpt diff %s %s | grep -v extra.config"):format(whole, part)).out)
    end
  end)

  it("that goes on with another number of threads differs by rounding alone", function()
    assert.equal(0, run("--out whole", "OMP_NUM_THREADS=1").code)
    assert.equal(0, run("--out part --steps=9 --lr_scheduler.total_steps=24", "OMP_NUM_THREADS=1").code)
    assert.equal(0, run("--out part --resume --lr_scheduler.total_steps=24", "OMP_NUM_THREADS=3").code)
    local a, b = optlua.load(place .. "/whole/last.safetensors"), optlua.load(place .. "/part/last.safetensors")
    for name, tensor in pairs(a) do
      local gap = (tensor:to "float64" - b[name]:to "float64"):abs():max():item()
      assert(gap < 1e-4, ("%s: %g"):format(name, gap))
    end
  end)

  it("that is asked to end by a signal saves first, and exits as the signal says", function()
    run "--out whole"
    for signal, code in pairs { INT = 130, TERM = 143 } do
      local stopped = run("--out " .. signal, ("STOP_BY=%s STOP_AT=8"):format(signal))
      assert.equal(code, stopped.code, stopped.err)
      assert.matches("stopped: signal", stopped.out)
      assert.matches("saving a checkpoint after this update; again to quit without it", stopped.err)
      assert.matches(("the run is in %s; %%-%%-resume %s goes on with it"):format(signal, signal), stopped.out)
      assert.matches("step%-00000008\n$", process.run(place, "ls " .. signal .. "/checkpoints").out)
      assert.equal(0, run(("--out %s --resume"):format(signal)).code)
      assert.equal(weights "whole", weights(signal))
    end
  end)

  it("that had ended goes on with what it lacks, bit for bit, and prints the same mean losses", function()
    local whole = run "--out whole"
    local function losses(text, seen)
      for epoch, loss in text:gmatch "epoch +(%d+)  step %d+  loss ([%d.]+)" do seen[epoch] = loss end
      return seen
    end
    for i, first in ipairs { "--epochs=2", "--epochs=5", "--steps=8", "--steps=10", "--steps=23" } do
      local name, seen = "ended" .. i, {}
      local fresh = first .. " --lr_scheduler.total_steps=24 --out " .. name
      losses(run(fresh).out, seen)
      local resumed = run("--lr_scheduler.total_steps=24 --resume " .. name)
      assert.equal(0, resumed.code, resumed.err)
      assert.equal(weights "whole", weights(name), first)
      assert.same(losses(whole.out, {})["6"], losses(resumed.out, seen)["6"])
    end
  end)

  it("has a checkpoint after its first epoch", function()
    assert.not_equal(0, run("--out a --checkpoint_every=null", "STOP_BY=KILL STOP_AT=6").code)
    assert.equal("step-00000004\n", process.run(place, "ls a/checkpoints").out)
  end)

  it("is found by its name, its folder and that of its checkpoints: the last that has one", function()
    assert.equal(0, run("--steps=3").code)
    assert.equal(0, run("--steps=5").code)
    assert.not_equal(0, run("", "STOP_BY=KILL STOP_AT=1").code)
    assert.equal("resumed\nresumed-2\nresumed-3\n", process.run(place, "ls runs").out)
    assert.matches("resume: runs/resumed%-2/checkpoints/step%-00000005", run("--steps=6 --resume").out)
    assert.matches("resume: runs/resumed/checkpoints/step%-00000003", run("--steps=6 --resume runs/resumed/checkpoints/").out)
    assert.not_equal(0, run("--steps=6 --optimizer=SGD --out c --resume runs/resumed").code)
    assert.equal("", process.run(place, "ls -d c 2>/dev/null").out)
    assert.matches("these are weights alone, with which %-%-from begins", run("--resume runs/resumed/best.safetensors").err)
  end)

  it("that fails before its first update leaves no folder", function()
    assert.not_equal(0, run("--batch_size=1 --from nowhere").code)
    assert.not_equal(0, run("--batch_size=1").code) -- BatchNorm takes no single item
    assert.not_equal(0, run("--batch_size=1 --out b").code)
    assert.equal("", process.run(place, "ls runs; ls -d b 2>&1 | grep -v 'No such'").out)
  end)

  it("says first that it had another optimizer", function()
    assert.equal(0, run("--steps=3 --out a").code)
    assert.matches("does not fit; nothing was loaded\n  differing: class.default: SGD expected, got AdamW\n", run("--resume a --optimizer=SGD").err)
  end)

  it("keeps the last few checkpoints, and shares its folder with no other run", function()
    assert.equal(0, run("--out a --keep_last=2").code)
    assert.equal("step-00000021\nstep-00000024\n", process.run(place, "ls a/checkpoints").out)
    local lock = checkpoint.lock(place .. "/a")
    local second = run "--out a"
    assert.equal(1, second.code)
    assert.matches("another run is in this folder", second.err)
    lock:close()
  end)

  it("keeps the best one too where keep_best says so, and notes how long each took", function()
    process.write(place .. "/best.lua", [[
      local best = { [8] = 1, [12] = 3, [16] = 2, [20] = 2.5, [24] = 2.75 }
      return require("script"):extend { config = { keep_best = true, keep_last = 1, checkpoint_every = 100, monitor = "score" },
        metrics = { score = { update = function() end, reset = function() end, compute = function() return best[STEP] or 0 end } },
        on_step = function(state) STEP = state.step end }]])
    local result = process.run(place, "optlua best.lua --out a")
    assert.equal(0, result.code, result.err)
    assert.equal("step-00000012\nstep-00000024\n", process.run(place, "ls a/checkpoints").out)
    assert.same({ place .. "/a/checkpoints/step-00000012", 3 }, { checkpoint.best(place .. "/a/checkpoints", "max") })
    local log = process.read(place .. "/a/log.jsonl")
    assert.equal(4, select(2, log:gsub('"event":"checkpoint","seconds":[%d.e-]+,"step":%d+', ""))) -- 4, 8, 12 and the end
    local resumed = process.run(place, "optlua best.lua --out b --resume a/checkpoints/step-00000012")
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(weights "a", weights "b")
  end)

  it("writes checkpoints every so many minutes", function()
    local written = run "--out a --checkpoint_every=null --checkpoint_minutes=1e-9 --steps=3"
    assert.equal(0, written.code, written.err)
    assert.equal("step-00000001\nstep-00000002\nstep-00000003\n", process.run(place, "ls a/checkpoints").out)
  end)

  it("that went on from an earlier step leaves nothing of what came after it", function()
    run "--out whole"
    assert.equal(0, run("--out a --steps=20").code)
    local resumed = run "--out a --resume a/checkpoints/step-00000015"
    assert.equal(0, resumed.code, resumed.err)
    assert.equal("step-00000015\nstep-00000018\nstep-00000021\nstep-00000024\n", process.run(place, "ls a/checkpoints | tail -4").out)
    local steps = process.run(place, [[sed -n 's/^\([0-9]*\),.*/\1/p' a/log.csv]]).out
    local wanted = {}
    for k = 1, 24 do wanted[k] = k .. "\n" end
    assert.equal(table.concat(wanted), steps)
  end)

  it("is not written over by another", function()
    assert.equal(0, run("--out a --steps=2").code)
    local second = run "--out a"
    assert.equal(1, second.code)
    assert.matches("a holds a run already; %-%-resume goes on with it", second.err)
  end)

  it("shows with --plan --diff what going on would change, and changes nothing", function()
    run "--out a --steps=6"
    local before = process.run(place, "cat a/log.csv a/config.lua; ls a a/checkpoints").out
    local plan = run "--plan --diff a --optimizer.lr=0.5 --steps=9"
    assert.equal(0, plan.code, plan.err)
    assert.matches("resume: lr of group default: 0.5, was saved as 0.01", plan.out)
    assert.matches("resume: steps: 9, was saved as 6", plan.out)
    assert.not_matches("batch_size", plan.out:match "with this config:(.*)")
    assert.matches("step 6, epoch", plan.out)
    plan = run "--plan --diff a --optimizer=SGD"
    assert.equal(1, plan.code)
    assert.matches("the state does not fit", plan.err)
    assert.equal(2, run("--diff a").code)
    assert.equal(2, run("--plan --diff nowhere").code)
    assert.equal(before, process.run(place, "cat a/log.csv a/config.lua; ls a a/checkpoints").out)
  end)

  it("goes on with another model through a file of surgery", function()
    assert.equal(0, run("--out a --steps=6").code)
    process.write(place .. "/wide.lua", [[
      local nn = require("optlua").nn
      return require("script"):extend { build_model = function()
        return nn.Sequential { nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3), nn.Linear(3, 3) }
      end }]])
    process.write(place .. "/move.lua", [[return function(saved)
      saved:rename(function(name) return (name:gsub("^3%.", "4.")) end)
      saved.strict = false
    end]])
    local resumed = process.run(place, "optlua wide.lua --out b --resume a --surgery move.lua --steps=9")
    assert.equal(0, resumed.code, resumed.err)
    assert.matches("resume: model: missing: 5.weight, 5.bias\n", resumed.out)
    assert.matches("step%-00000009", process.run(place, "ls b/checkpoints").out)
    local shown = process.run(place, "optlua ckpt show b").out
    assert.matches("optimizer.state.4.weight.step = 9\n", shown)
    assert.matches("optimizer.state.5.weight.step = 3\n", shown)
    assert.matches("%-%-surgery stands beside %-%-resume, %-%-from", process.run(place, "optlua wide.lua --surgery move.lua").err)
    process.write(place .. "/none.lua", "return 1")
    assert.matches("%-%-surgery: none.lua returns no function", process.run(place, "optlua wide.lua --resume a --surgery none.lua").err)
  end)

  it("says key by key what differs; of the checkpoint's values those hold that the policy names", function()
    run "--out a --steps=6 --optimizer.lr=0.5 --batch_size=4 --optimizer.weight_decay=0.2 --accumulate=1"
    local function resumed(words)
      local result = run("--plan --diff a " .. words)
      assert.equal(0, result.code, result.err)
      local list = {}
      for line in result.out:match("with this config:(.*)"):gmatch "resume: ([^\n]*was saved as[^\n]*)" do list[#list + 1] = line end
      table.sort(list)
      return table.concat(list, "; ")
    end
    assert.equal("accumulate: 2, was saved as 1; batch_size: 5, was saved as 4; lr of group default: 0.01, was saved as 0.5; "
      .. "steps: 8, was saved as 6; weight_decay of group default: 0.01, was saved as 0.2", resumed "--steps=8")
    assert.equal("steps: 8, was saved as 6", resumed "--steps=8 --resume-policy=checkpoint")
    assert.equal("batch_size: 6, was saved as 4; lr of group default: 0.25, was saved as 0.5; steps: 8, was saved as 6",
      resumed "--steps=8 --resume-policy=checkpoint --optimizer.lr=0.25 --batch_size=6")
    process.write(place .. "/run.yaml", "optimizer:\n  lr: 0.125\n")
    assert.equal("lr of group default: 0.125, was saved as 0.5; steps: 8, was saved as 6",
      resumed "--steps=8 --resume-policy=checkpoint --config run.yaml")
    assert.equal("accumulate: 2, was saved as 1; batch_size: 5, was saved as 4; lr of group default: 0.01, was saved as 0.5",
      resumed "--resume-policy=checkpoint,optimizer.lr=config,accumulate=config,batch_size=config")
    process.write(place .. "/groups.lua", 'return require("script"):extend { config = { groups = { { name = "all", match = "*", lr = 1 } } } }')
    process.run(place, "optlua groups.lua --out g --steps=2")
    local grouped = process.run(place, "optlua groups.lua --plan --diff g --steps=2 --groups.all.lr=2 --groups.all.lr_scale=3").out
    assert.matches("resume: groups.all.lr_scale: 3, was saved as nothing\n", grouped)
    assert.matches("resume: lr of group all: 6.?0?, was saved as 1", grouped)
    assert.equal("accumulate: 2, was saved as 1; steps: null, was saved as 6", (resumed "--resume-policy=config,optimizer=checkpoint,batch_size=checkpoint"):gsub("nothing", "null"))
  end)

  it("clips as its config says, and says what was otherwise", function()
    run "--out a --steps=6 --optimizer.max_norm=1 --optimizer.clip_value=2"
    local plan = run "--plan --diff a --steps=6 --optimizer.max_norm=null --optimizer.clip_value=0.5 --optimizer.grad_scale=2"
    assert.equal(0, plan.code, plan.err)
    assert.matches("resume: max_norm of the container: nothing, was saved as 1\n", plan.out)
    assert.matches("resume: clip_value of group default: 0.5, was saved as 2\n", plan.out)
    assert.matches("options { clip_value = 0.5,.* grad_scale = 2", plan.out)
    assert.equal(0, run("--plan --diff a --steps=6 --optimizer.max_norm=1").code)
  end)

  it("that goes on with the checkpoint's config is the one that never stopped", function()
    local words = "--optimizer.lr=0.05 --batch_size=3 --accumulate=1 --optimizer.ema=null"
    run("--out whole " .. words)
    run("--out part --steps=9 --lr_scheduler.total_steps=66 " .. words)
    local resumed = run "--out part --resume --resume-policy=checkpoint --steps=null"
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(weights "whole", weights "part")
  end)

  it("says what differs from the checkpoint, and does as --resume-policy says", function()
    run "--out a --steps=6"
    local resumed = run "--out a --resume --optimizer.lr=0.5"
    assert.matches("resume: lr of group default: 0.5, was saved as 0.01", resumed.out)
    assert.matches("resume: default.lr: another schedule", resumed.out)
    run "--out b --steps=6 --optimizer.lr=0.5"
    assert.not_matches("was saved as", run("--out b --resume --resume-policy=checkpoint").out)
    local wrong = run "--out b --resume --resume-policy=maybe"
    assert.equal(2, wrong.code)
    assert.matches("config, checkpoint or rebase expected, or KEY=one of them, got maybe", wrong.err)
    wrong = run "--resume nowhere"
    assert.equal(2, wrong.code)
    assert.matches("nowhere: there is no checkpoint", wrong.err)
  end)
end)

describe("a run of several optimizers, with schedulers in a list", function()
  local PAIR = [[
local optlua = require "optlua"
local nn, optim, schedule = optlua.nn, optlua.optim, optlua.schedule
local Pair = nn.class "Pair"
function Pair:init()
  self.a = nn.Linear(4, 4)
  self.b = nn.Linear(4, 3)
end
function Pair:forward(x) return self.b(self.a(x):tanh()) end
function Pair:configure_optimizers()
  local a, b = optim.AdamW(self.a, { lr = 0.1 }), optim[os.getenv "B" or "SGD"](self.b, { lr = 0.1 })
  local plateau = { mode = "min", patience = 0 }
  return { a = a, b = b }, { optim.lr_scheduler(a, schedule.ReduceLROnPlateau(plateau)), optim.lr_scheduler(b, schedule.linear { to = 0, steps = 20 }) }
end
return optlua.spec {
  name = "pair", config = { seed = 3, epochs = 4, batch_size = 4 },
  build_model = function() return Pair() end,
  build_data = function() return optlua.testing.points { n = 16 } end,
  build_loss = function() return nn.CrossEntropyLoss() end,
  train_step = function(state, batch, default)
    local loss = default(state, batch)
    loss:backward()
    for _, name in ipairs { "a", "b" } do
      state.optimizers[name]:step()
      state.optimizers[name]:zero_grad()
    end
    if state.step % 4 == 3 then state.lr_schedulers[1]:step(1) end
    return loss
  end,
}
]]

  it("goes on bit for bit; where one does not fit, none is loaded", function()
    process.write(place .. "/pair.lua", PAIR)
    local function run(words) return process.run(place, "optlua pair.lua " .. words) end
    assert.equal(0, run("--out whole").code)
    assert.equal(0, run("--out part --epochs=2").code)
    local resumed = run "--out part --resume"
    assert.equal(0, resumed.code, resumed.err)
    assert.equal(process.read(place .. "/whole/last.safetensors"), process.read(place .. "/part/last.safetensors"))
    local wrong = process.run(place, "B=AdamW optlua pair.lua --out part --resume")
    assert.equal(1, wrong.code)
    assert.matches("checkpoint.load: b: AdamW: the state does not fit; nothing was loaded\n  differing: class.default: AdamW expected, got SGD", wrong.err)
  end)
end)
