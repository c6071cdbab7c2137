-- Checkpoints: written whole or not at all, loaded by name or not at all.
local optlua = require "optlua"
local bits = require "bits"
local checkpoint = optlua.checkpoint
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
