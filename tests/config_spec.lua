-- Configs: defaults and descriptions, the command line, files, choices, groups; what is refused.
local optlua = require "optlua"
local command = require "optlua.config.command"
local Config = require "optlua.config.tree"
local arg, optim = optlua.arg, optlua.optim

local fails = require("fails").matching

local function sample()
  return {
    epochs = 3, rate = 0.5, name = "x", shuffle = true, sizes = { 8, 16 }, ratio = arg { default = 0.1, min = 0, below = 1 },
    text = arg { type = "string", doc = "a text" },
    model = nil, net = { width = 32, deep = { layers = arg { default = 2, integer = true, min = 1 } } },
    optimizer = { class = "AdamW", lr = 3e-3, weight_decay = 1e-2 },
    groups = { { name = "biases", match = "*.bias", weight_decay = 0 }, { name = "rest", match = "*" } },
    lr_scheduler = { class = "warmup_stable_decay", warmup_steps = 50 },
  }
end

local function read(words, schema)
  local config = Config.new(schema or sample())
  config.open = true
  local _, problems = command.read(words, config, { config = "value", help = "flag" })
  for _, problem in ipairs(problems) do config:complain("%s", problem) end
  return config:finish "test", config
end

local function written(suffix, text)
  local path = os.tmpname()
  os.remove(path)
  path = path .. suffix
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return path
end

describe("a config", function()
  it("has the script's values where nothing else is said", function()
    local values = read {}
    assert.same({ 3, 0.5, "x", true, 0.1 }, { values.epochs, values.rate, values.name, values.shuffle, values.ratio })
    assert.is_nil(values.text)
    assert.equal(2, values.net.deep.layers)
    fails('the config: unknown key "epoch" %(did you mean "epochs"%?%)', function() return values.epoch end)
    fails('unknown key "net.widht"', function() return values.net.widht end)
  end)

  it("takes values from the command line, with = or as the next word, by their types", function()
    local values = read { "--epochs=5", "--rate", "1e-2", "--name=7", "--sizes=[1, 2]", "--net.deep.layers=4.0", "--text=5",
      "--net.width", "64" }
    assert.same({ 5, 0.01, "7", "5", 4, 64 }, { values.epochs, values.rate, values.name, values.text, values.net.deep.layers, values.net.width })
    assert.same({ 1, 2 }, values.sizes)
    assert.equal("integer", math.type(values.net.deep.layers))
    assert.is_false((read { "--shuffle=false" }).shuffle)
    assert.is_true((read { "--shuffle", "--epochs=1" }).shuffle)
    assert.is_false((read { "--shuffle", "false" }).shuffle)
    assert.is_nil((read { "--text=x", "--text=null" }).text)
  end)

  it("reads lists with commas between, and as Lua data", function()
    local function sizes(word) return read({ "--sizes=" .. word }).sizes end
    assert.same({ 1, 2, 3 }, sizes "1,2,3")
    assert.same({ 7 }, sizes "7,")
    assert.same({ 1, 2 }, sizes "{ 1, 2 }")
    assert.same({ 0.9, 0.5 }, read({ "--optimizer.betas=0.9, 0.5" }).optimizer.betas)
    assert.same({ 0.9, 0.5 }, read({ "--optimizer.betas", "{ 0.9, 0.5 }" }).optimizer.betas)
    assert.equal("0.9,0.5", read({ "--text=0.9,0.5" }).text)
    assert.equal("{ 1 }", read({ "--text={ 1 }" }).text)
    assert.same({ "a", "b c" }, read({ "--words=a, b c" }, { words = { "x" } }).words)
    for _, word in ipairs { "1,x", "{ os.exit() }", "{ function() end }", "{ 1, ", "{ x }", "{ print 'x' }" } do
      fails("sizes", read, { "--sizes=" .. word })
    end
    local help = require "optlua.config.help"
    assert.matches("a list: --key=0.9,0.99 or --key='{ 0.9, 0.99 }'", help.text(Config.new(sample()), "", {}), 1, true)
  end)

  it("refuses what is wrong, all at once, by name", function()
    fails('unknown option "epoch" %(did you mean "epochs"%?%)', read, { "--epoch=5" })
    fails('net: unknown option "widht" %(did you mean "width"%?%)', read, { "--net.widht=5" })
    fails("ratio: expected a number at least 0 and below 1, got 2", read, { "--ratio=2" })
    fails("layers: expected an integer at least 1, got 1.5", read, { "--net.deep.layers=1.5" })
    fails("epochs: expected a number, got \"many\"", read, { "--epochs=many" })
    fails('"epochs": options begin with %-%-', read, { "epochs" })
    fails("%-%-epochs: a value is missing", read, { "--epochs" })
    fails("epochs.x: epochs has no parts", read, { "--epochs.x=1" })
    fails("required: is required", read, {}, { required = arg { required = true, type = "number" } })
    fails("epoch.*ratio", read, { "--epoch=5", "--ratio=2" })
    fails("field.*defualt", arg, { defualt = 1 })
    fails("default: expected a number at least 1, got 0", arg, { default = 0, min = 1 })
  end)
end)

describe("odd values", function()
  it("null deletes, at any depth; an absent key is read as nil", function()
    local values = read { "--net=null", "--epochs=null", "--optimizer.lr=null", "--groups.biases.weight_decay=null" }
    assert.same({ nil, nil }, { values.net, values.epochs })
    assert.is_nil(values.optimizer.lr)
    assert.is_nil(values.groups[1].weight_decay)
    assert.is_nil((read { '--net={"deep": null}' }).net.deep)
    values = read { "--groups.biases=null" }
    assert.same({ "rest", nil }, { values.groups[1].name, values.groups[2] })
    assert.is_nil((read { '--groups=[{"name": "all", "match": "*", "lr": null}]' }).groups[1].lr)
    fails("optimizer: class: a class or its name is required", read, { "--optimizer.class=null" })
    fails("optimizer: class: a class or its name is required", read, { '--optimizer={"class_path": null}' })
  end)

  it("of the wrong kind are refused by name", function()
    for word, message in pairs {
      ['--optimizer=["SGD"]'] = "optimizer: a name, or a table .* expected, got a list", ["--optimizer=5"] = "optimizer: class: .* got a number",
      ['--optimizer={"class": {"class": "SGD"}}'] = "optimizer: class: .* got a table", ["--lr_scheduler=5"] = "the name of a schedule expected, got a number",
      ["--model=true"] = "the name of a model expected, got a boolean", ['--loss=[1]'] = "loss: a name, or a table",
      ["--groups=5"] = "groups: a list of groups", ["--groups=[]"] = "groups: a list of groups", ["--groups=[5]"] = "groups%[1%]: a table expected, got 5",
      ["--groups=[null]"] = "groups%[1%]: a table expected, got null", ["--groups.rest=5"] = "groups.rest: no such place",
      ["--groups.rest=[1]"] = "groups.rest: no such place", ["--groups.rest.lr.x=1"] = "no such place", ['--groups=[{"name": 5, "lr": -1}]'] = "groups.5.lr: expected",
      ['--groups=[{"lr": -1}]'] = "groups.group1.lr: expected", ["--net=[1]"] = 'net: unknown option "1"', ["--net=5"] = "net: a table expected, got 5",
      ["--optimizers=5"] = "optimizers: a table expected", ["--optimizers=[1]"] = "optimizers.1: class", ["--optimizers.a.lr=1"] = "optimizers.a: class",
      ["--epochs=nan"] = "epochs: expected a number", ["--epochs=1e400"] = "epochs: expected a number", ["--="] = "a value is missing",
      ["--rate=[null]"] = "rate: expected a number", ["--sizes=[null]"] = "sizes%[1%]: expected a number", ["--näme=1"] = "unknown option .näme",
      ["--.=1"] = "unknown option", ['--lr_scheduler={"class_path": "linear", "init_args": 5}'] = "init_args: a table expected",
    } do fails(message, read, { word }) end
  end)

  it("are fine where they are legal", function()
    assert.same({ 1, 2, 3 }, (read { "--sizes=[1, 2, 3]" }).sizes) -- a list may have another length
    assert.same({}, (read { "--sizes=[]" }).sizes)
    assert.equal("", (read { "--name=" }).name)
    assert.equal("é\xff", (read { "--name=é\xff" }).name)
    assert.equal(1e300, (read { "--rate=1e300" }).rate)
    for word, number in pairs { [".5"] = 0.5, ["1."] = 1, ["5.e-3"] = 0.005, ["+5e-3"] = 0.005, ["-.5"] = -0.5 } do
      assert.equal(number, (read { "--rate=" .. word }).rate)
    end
    assert.same({ 1, 2.5 }, (read { "--sizes=1.,+2.5" }).sizes)
    assert.same({ ".5", "007" }, { (read { "--name=.5" }).name, (read { "--rate=1", "--name=007" }).name })
  end)

  it("of booleans may be left out, wherever they stand", function()
    local schema = { optimizer = { class = "SGD" }, flag = false, groups = { { name = "a.b", match = "*" } } }
    local values = read({ "--flag", "--optimizer.nesterov", "--optimizer.zero", "--groups.a.b.maximize" }, schema)
    assert.same({ true, true, true, true }, { values.flag, values.optimizer.nesterov, values.optimizer.zero, values.groups[1].maximize })
    values = read({ "--optimizer.amsgrad", "--optimizer=AdamW", "--optimizer.zero", "false" }, schema)
    assert.same({ true, false }, { values.optimizer.amsgrad, values.optimizer.zero })
    assert.equal(0.5, (read({ "--optimizer", "SGD", "--optimizer.lr", "0.5" }, {})).optimizer.lr)
    fails("%-%-optimizer.lr: a value is missing", read, { "--optimizer.lr", "--flag" }, schema)
    fails("%-%-optimizer.amsgrad: a value is missing", read, { "--optimizer.amsgrad" }, schema)
    fails("%-%-groups.a.b.lr: a value is missing", read, { "--groups.a.b.lr" }, schema)
  end)

  it("may be names of groups: with dots, a word of the config, the same as a key", function()
    local function groups(words)
      local list = {}
      for _, name in ipairs { "a.b", "a", "groups", "lr", "ü" } do list[#list + 1] = { name = name, match = "*", optional = true } end
      return (read(words, { optimizer = { class = "SGD" }, groups = list })).groups
    end
    local got = groups { "--groups.a.b.lr=1", "--groups.a.lr=2", "--groups.groups.lr=3", "--groups.lr.lr=4", "--groups.ü.lr=5" }
    assert.same({ 1, 2, 3, 4, 5 }, { got[1].lr, got[2].lr, got[3].lr, got[4].lr, got[5].lr })
    fails('unknown group "c"', groups, { "--groups.c.b.lr=1" })
    fails("groups.a.b.lr: expected", groups, { "--groups.a.b.lr=x" })
  end)

  it("that cannot be keys are refused in the script", function()
    for _, key in ipairs { "a.b", "a=b", "" } do
      fails("a config has words for keys", Config.new, { [key] = 1 })
      fails("a config has words for keys", Config.new, { net = { width = 1, [key] = 1 } })
    end
    fails("a config has words for keys.*not 1", Config.new, { 5 })
    local list = "a name, or a table { class = …, arguments by name }, expected, got a list"
    for key, section in pairs { optimizer = { "AdamW", lr = 3e-3 }, lr_scheduler = { "cosine", warmup_steps = 20 }, model = { 1 } } do
      fails("config_spec.lua:%d+: a config: " .. key .. ": " .. list .. "$", function() Config.new { [key] = section } end)
    end
    fails("a config: optimizers.a: " .. list, Config.new, { optimizers = { a = { "SGD" } } })
    local rate = 1e-3
    fails("a config: optimizer: " .. list .. "; an argument is given with =, not with ==$", Config.new,
      { optimizer = { class = "SGD", rate == 3e-3 } })
    local spec = optlua.spec { name = "x", config = { optimizer = { class = "SGD", lr = 0.1 } } }
    fails("config_spec.lua:%d+: a config: optimizer: " .. list, function()
      spec:extend { config = { optimizer = { "AdamW", lr = 3e-3 } } }
    end)
    fails('the key "config" of the script\'s config is a switch', read, {}, { config = 1 })
    fails('the key "help" of the script\'s config is a switch', read, { "--epochs=1" }, { help = "me", epochs = 2 })
    fails("a config is a table", Config.new, 5)
  end)
end)

describe("a choice in a config", function()
  it("changes its arguments and its class", function()
    local values, config = read { "--optimizer.lr=1e-4", "--optimizer.betas=[0.8,0.9]", "--optimizer.max_norm=1" }
    assert.same({ "AdamW", 1e-4, 1 }, { values.optimizer.class, values.optimizer.lr, values.optimizer.max_norm })
    assert.same({}, config.notes)
    values = read { "--optimizer=Lion" }
    assert.same({ "Lion", 3e-3 }, { values.optimizer.class, values.optimizer.lr })
    values, config = read({ "--optimizer=SGD", "--optimizer.momentum=0.9" }, { optimizer = { class = "AdamW", betas = { 0.9, 0.95 } } })
    assert.is_nil(values.optimizer.betas)
    assert.matches('optimizer: "SGD" does not take betas; dropped', config.notes[1])
    assert.equal(0.9, values.optimizer.momentum)
    values = read { "--lr_scheduler=linear", "--lr_scheduler.to=0.1", "--lr_scheduler.steps=10" }
    assert.equal("linear", values.lr_scheduler.class)
    assert.is_nil((read { "--lr_scheduler=null" }).lr_scheduler)
    assert.equal("StepLR", (read({ "--lr_scheduler=StepLR", "--lr_scheduler.step_size=2" }, { epochs = 1 })).lr_scheduler.class)
  end)

  it("takes what the class that is chosen in the end takes, in whatever order things are said", function()
    optim.register("OrderSpec", optim.wrapper { name = "OrderSpec", extra = true, hyper = { inner = { default = "SGD", type = "class" } },
      build = function(named, args, extra) return args.inner(named, extra) end })
    local schema = { optimizer = { class = "AdamW", betas = { 0.5, 0.6 } } }
    local values = read({ "--optimizer=OrderSpec", "--optimizer.inner=Adam" }, schema)
    assert.same({ 0.5, 0.6 }, values.optimizer.betas)
    assert.is_nil((read({ "--optimizer=OrderSpec" }, schema)).optimizer.betas)
    schema = { optimizer = { class = "OrderSpec", inner = "Adam", betas = { 0.5, 0.6 } } }
    assert.is_nil((read({ "--optimizer.inner=SGD" }, schema)).optimizer.betas)
    fails('unknown option "betas"', read, {}, { optimizer = { class = "OrderSpec", betas = { 0.5, 0.6 } } })
    optim.unregister "OrderSpec"
  end)

  it("is checked by what was chosen", function()
    fails('optimizer: unknown option "momentum".*legal: .*amsgrad, betas', read, { "--optimizer.momentum=0.9" })
    fails('optimizer: unknown optimizer "AdamX" %(did you mean "Adam".*no module of that name either %(AdamX.lua beside', read, { "--optimizer=AdamX" })
    local said = fails("^[^\n]*optimizer: unknown optimizer \"sgd\"[^\n]*$", read, { "--optimizer=sgd" })
    assert.is_nil(said:find("groups", 1, true))
    fails('optimizer: unknown optimizer "sgd".*groups.rest: unknown optimizer "sgd"', read, { "--optimizer=sgd", "--groups.rest.class=sgd" })
    fails('a module is named without .lua: "optlua.optim.classes.sgd"', read, { "--optimizer=optlua/optim/classes/sgd.lua" })
    fails("optimizer.lr: expected a number at least 0, got %-1", read, { "--optimizer.lr=-1" })
    fails('lr_scheduler: unknown option "warmup_step" %(did you mean "warmup_steps"', read, { "--lr_scheduler.warmup_step=1" })
    fails("lr_scheduler.max_lr: is required", read, { "--lr_scheduler=OneCycleLR" })
    fails("%-%-config: a value is missing", read, { "--config=" })
    fails('lr_scheduler: unknown schedule "cosin"', read, { "--lr_scheduler=cosin" })
    fails("optimizer.lr.x: an argument has no parts", read, { "--optimizer.lr.x=1" })
  end)

  it("can be a class of the script itself", function()
    local values = read({ "--optimizer.lr=0.5" }, { optimizer = { class = optim.Lion, lr = 1 } })
    assert.equal(optim.Lion, values.optimizer.class)
    values = read({}, { lr_scheduler = function() return 1 end })
    assert.is_function(values.lr_scheduler.class)
  end)

  it("sends several by name", function()
    local schema = { optimizers = { gen = { class = "Adam", lr = 1 }, disc = { class = "SGD" } }, lr_schedulers = { gen = { class = "constant" } } }
    local values = read({ "--optimizers.gen.lr=2", "--optimizers.disc=AdamW", "--lr_schedulers.gen.factor=0.5" }, schema)
    assert.same({ 2, "AdamW", 0.5 }, { values.optimizers.gen.lr, values.optimizers.disc.class, values.lr_schedulers.gen.factor })
    fails("optimizers.gen: unknown option \"lrr\"", read, { "--optimizers.gen.lrr=2" }, schema)
    fails('optimizers: unknown option "generator"', read, { "--optimizers.generator.lr=2" }, schema)
  end)
end)

describe("groups in a config", function()
  it("are reached by name", function()
    local values = read { "--groups.biases.lr=1e-2", "--groups.rest.weight_decay=0.5" }
    assert.same({ 1e-2, 0, 0.5 }, { values.groups[1].lr, values.groups[1].weight_decay, values.groups[2].weight_decay })
    assert.is_nil((read { "--groups=null" }).groups)
    fails('unknown group "bias" %(did you mean "biases"', read, { "--groups.bias.lr=1" })
    fails('groups.rest: unknown option "lrr"', read, { "--groups.rest.lrr=1" })
    fails("groups.rest.lr: expected a number", read, { "--groups.rest.lr=-1" })
  end)

  it("have schedules by a function: what says one in the config is told so", function()
    local said = "no schedule stands in a group: optim.lr_scheduler%(optimizers, { biases = schedule, … }%), which a spec's build_lr_schedulers"
    fails("groups.biases: lr_scheduler: " .. said, read, { "--groups.biases.lr_scheduler=cosine" })
    fails("groups.biases: lr_scheduler: " .. said, read, { "--groups.biases.lr_scheduler.class=cosine" })
    local schema = sample()
    schema.lr_scheduler = { biases = { class = "cosine" }, rest = "linear" }
    fails("lr_scheduler: class: a class or its name is required; " .. said, read, {}, schema)
    schema.lr_scheduler, schema.groups[1].lr_scheduler = nil, { class = "cosine" }
    fails("groups.biases: lr_scheduler: " .. said, read, {}, schema)
    fails("group 'b%.1': lr_scheduler: .*{ %[\"b.1\"%] = schedule", optim.container, optlua.nn.Linear(1, 1),
      { { name = "b.1", match = "*", class = "SGD", lr_scheduler = "cosine" } })
  end)

  it("drop what another class does not take, if it came from the script", function()
    local Plain = optim.register("PlainSpec", optim.define { name = "Plain", hyper = { lr = 0.1 }, update = function(p, g, s, h) return p - h.lr * g end })
    local values, config = read { "--optimizer=PlainSpec" }
    assert.equal(Plain, optim.resolve(values.optimizer.class))
    assert.is_nil(values.groups[1].weight_decay)
    assert.matches("groups.biases: .*does not take weight_decay", table.concat(config.notes, "\n"))
    fails('groups.biases: unknown option "weight_decay"', read, { "--optimizer=PlainSpec", "--groups.biases.weight_decay=1" })
    optim.unregister "PlainSpec"
  end)
end)

describe("what no group takes of the optimizer's arguments", function()
  local function schema()
    return { optimizer = { class = "AdamW", weight_decay = 0.1, max_norm = 1 },
      groups = { { name = "a", match = "*.bias", class = "SGD" }, { name = "rest", match = "*" } } }
  end
  local function none(class) return "no group takes it: it is for groups of the class " .. class .. ", and each has another %(Lion, SGD%)" end

  it("is dropped if it came from the script, else refused", function()
    local values, config = read({ "--groups.rest.class=Lion", "--optimizer.max_norm=2" }, schema())
    assert.same({ class = "AdamW", max_norm = 2 }, values.optimizer)
    assert.same({ "optimizer: no group takes weight_decay; dropped from the script's" }, config.notes)
    fails("^[^\n]*optimizer.lr: " .. none "AdamW" .. "; %-%-groups.NAME.lr=… sets that of one$", read,
      { "--groups.rest.class=Lion", "--optimizer.lr=1" }, schema())
    assert.equal(1, (read({ "--groups.a.class=Lion", "--optimizer.lr=1" }, schema())).optimizer.lr)
    assert.equal(1, (read({ "--groups.rest.class=AdamW", "--optimizer.lr=1" }, schema())).optimizer.lr)
  end)

  it("is refused where the script alone says it; a class that none has, too", function()
    local own = schema()
    own.groups[2].class = "Lion"
    fails("optimizer.weight_decay: " .. none "AdamW", read, {}, own)
    own.optimizer.weight_decay = nil
    assert.same({ class = "AdamW", max_norm = 1 }, (read({}, own)).optimizer)
    fails("optimizer: " .. none "Adam" .. "; %-%-groups.NAME.class", read, { "--optimizer=Adam" }, own)
    assert.equal("SGD", (read({ "--optimizer=SGD", "--optimizer.lr=1" }, own)).optimizer.class)
  end)

  it("is not in the help", function()
    local help, own = require "optlua.config.help", schema()
    assert.matches("--optimizer.lr number", help.text(Config.new(own), "", {}), 1, true)
    own.groups[2].class = "Lion"
    local text = help.text(Config.new(own), "", {})
    assert.not_matches("--optimizer.lr", text, 1, true)
    assert.matches("--optimizer.max_norm number", text, 1, true)
  end)

  it("is not asked of groups that a function makes", function()
    local own = schema()
    own.groups[2].class = "Lion"
    for _, name in ipairs { "makes_groups", "makes_optimizer" } do
      local config = Config.new(own)
      config[name] = true
      assert.equal(0.1, config:finish("test").optimizer.weight_decay)
    end
  end)

  it("stays what print-config writes", function()
    local _, config = read({ "--groups.rest.class=Lion" }, schema())
    local path = written(".lua", config:text())
    local _, again = read({ "--config", path }, schema())
    assert.equal(config:text(), again:text())
    os.remove(path)
  end)

  it("of a group that has another class now is dropped alike", function()
    local own = schema()
    own.groups[2].amsgrad = true
    local values, config = read({ "--groups.rest.class=SGD" }, own)
    assert.is_nil(values.groups[2].amsgrad)
    assert.matches('groups.rest: "SGD" does not take amsgrad; dropped', table.concat(config.notes, "\n"))
  end)
end)

describe("config files", function()
  it("are Lua data, JSON and YAML, the later over the earlier, the command line over all", function()
    local lua = written(".lua", 'return { epochs = 7, net = { width = 5 }, rate = math.huge }')
    local json = written(".json", '{"epochs": 8, "optimizer": {"lr": 1}}')
    local yaml = written(".yaml", "epochs: 9\ngroups:\n  rest:\n    lr: 0.25\nsizes: [3, 4]\n")
    local values = read { "--config", lua, "--config=" .. json, "--name=z" }
    assert.same({ 8, 5, 1, "z", math.huge }, { values.epochs, values.net.width, values.optimizer.lr, values.name, values.rate })
    values = read { "--epochs=1", "--config", yaml }
    assert.same({ 1, 0.25 }, { values.epochs, values.groups[2].lr })
    assert.same({ 3, 4 }, values.sizes)
    for _, path in ipairs { lua, json, yaml } do os.remove(path) end
  end)

  it("understand class_path and init_args, PyTorch's names and what PyTorch's classes take besides", function()
    local yaml = written(".yaml", "optimizer:\n  class_path: torch.optim.AdamW\n  init_args:\n    lr: 1.0e-4\n    fused: true\n    foreach: false\n")
    local values, config = read { "--config", yaml }
    assert.same({ "torch.optim.AdamW", 1e-4 }, { values.optimizer.class, values.optimizer.lr })
    assert.matches("optimizer: foreach, fused: not needed here, ignored", table.concat(config.notes, "\n"))
    os.remove(yaml)
  end)

  it("choose wrappers, whose arguments and those of the inner class are checked by name", function()
    optim.register("SplitSpec", optim.wrapper { name = "SplitSpec", extra = true,
      hyper = { inner = { default = "AdamW", type = "class" }, scale = { default = 5, min = 0 } },
      build = function(named, args, extra) return args.inner(named, extra) end })
    local function yaml(text)
      local path = written(".yaml", text)
      local _ <close> = setmetatable({}, { __close = function() os.remove(path) end })
      return (read { "--config", path, "--groups=null" })
    end
    local head = "optimizer:\n  class_path: SplitSpec\n  init_args:\n"
    local values = yaml(head .. "    scale: 2\n    inner:\n      class_path: torch.optim.SGD\n      init_args: {momentum: 0.5}\n")
    assert.same({ 2, "torch.optim.SGD", 0.5 }, { values.optimizer.scale, values.optimizer.inner, values.optimizer.momentum })
    fails('unknown option "momentum"', yaml, head .. "    momentum: 0.5\n")
    fails("optimizer.scale: expected a number at least 0", yaml, head .. "    scale: -2\n")
    optim.unregister "SplitSpec"
  end)

  it("choose wrappers around wrappers, and classes of groups, in the same words; an argument has one place", function()
    local function wrapper(name, argument)
      optim.register(name, optim.wrapper { name = name, extra = true, hyper = { [argument] = { default = "SGD", type = "class" } },
        build = function(named, args, extra) return args[argument](named, extra) end })
    end
    wrapper("OuterSpec", "outer_class")
    wrapper("MiddleSpec", "inner")
    wrapper("SameSpec", "inner")
    local function optimizer(argument, inner)
      return { "--groups=null", ('--optimizer={"class_path": "%s", "init_args": {"%s": {"class_path": "MiddleSpec", "init_args": %s}}}')
        :format(argument == "inner" and "SameSpec" or "OuterSpec", argument, inner) }
    end
    local deep = '{"inner": {"class_path": "torch.optim.Adam", "init_args": {"betas": [0.5, 0.6]}}}'
    local values = read(optimizer("outer_class", deep))
    assert.same({ "OuterSpec", "MiddleSpec", "torch.optim.Adam", 0.5 }, { values.optimizer.class, values.optimizer.outer_class,
      values.optimizer.inner, values.optimizer.betas[1] })
    fails('unknown option "momentum"', read, optimizer("outer_class", '{"inner": {"class_path": "Adam", "init_args": {"momentum": 0.5}}}'))
    fails("inner: is given twice", read, optimizer("inner", deep))
    fails("init_args: a table expected", read, optimizer("outer_class", "5"))
    values = read { '--groups.rest={"class_path": "torch.optim.SGD", "init_args": {"momentum": 0.5}}' }
    assert.same({ "torch.optim.SGD", 0.5 }, { values.groups[2].class, values.groups[2].momentum })
    values = read { '--groups=[{"name": "all", "match": "*", "class_path": "Lion", "init_args": {"lr": 1}}]' }
    assert.same({ "Lion", 1 }, { values.groups[1].class, values.groups[1].lr })
    values = read { "--groups=null", "--optimizer=SameSpec", "--optimizer.inner=SameSpec" } -- around itself
    assert.equal("SameSpec", values.optimizer.inner)
    optim.unregister "OuterSpec|MiddleSpec|SameSpec"
  end)

  it("that are wrong say where", function()
    for _, case in ipairs {
      { ".yaml", "epochs: 1\nepochs: 2\n", 'line 2: the key "epochs" stands there twice' },
      { ".yaml", "net: {width: 1, width: 2}\n", 'the key "width" stands there twice' },
      { ".yaml", "epochs: 123456789012345678901\n", "the integer 123456789012345678901 has more than 64 bits" },
      { ".yaml", "a: [1\n", "yaml" }, { ".json", '{"epochs": 1,}', "line 1" }, { ".json", '{"epochs":1,"epochs":2}', "duplicate" },
      { ".lua", "return { epochs = }", "unexpected symbol" }, { ".lua", "while true do end", "computes nothing for long" },
      { ".lua", "return os.exit()", "attempt to index a nil value" }, { ".lua", "return 5", "a table expected, got a number" },
      { ".yaml", "epochs: 1\n---\nepochs: 2\n", "line 2: a second document begins" }, { ".yaml", "null\n", "a table expected, got null" },
      { ".yaml", "", "a table expected, got nothing" }, { ".yaml", "config: 5\n", 'unknown option "config"; legal: data, epochs' },
      { ".toml", "epochs = 1", "ends with .lua, .json, .yaml or .yml" }, { ".json", '{"epoch": 1}', 'unknown option "epoch"' },
    } do
      local path = written(case[1], case[2])
      fails(case[3], read, { "--config", path })
      os.remove(path)
    end
    fails("No such file", read, { "--config=/nowhere.lua" })
    assert.equal("[1, 2]", require("optlua.config.text").write({ 1, 2 }):gsub("[{}]", { ["{"] = "[", ["}"] = "]" }):gsub("%[ ", "["):gsub(" %]", "]"))
  end)

  it("that print-config writes give the same values", function()
    local _, config = read { "--epochs=5", "--name=a\"b\nc", "--optimizer=Lion", "--groups.rest.lr=0.1", "--rate=0.1" }
    local path = written(".lua", config:text())
    local _, again = read { "--config", path }
    assert.equal(config:text(), again:text())
    os.remove(path)
  end)

  it("that print-config writes keep sections, and what was deleted", function()
    local values, config = read { "--net.width=5", "--groups=null", "--net.deep.layers=null", "--optimizer.lr=null", "--epochs=null" }
    local path = written(".lua", config:text())
    local same, again = read { "--config", path }
    assert.equal(config:text(), again:text())
    assert.same({ 5, nil }, { same.net.width, same.net.deep.layers })
    assert.same({ nil, nil, nil }, { same.groups, same.optimizer.lr, same.epochs })
    assert.is_nil(values.groups)
    assert.matches("groups = null", config:text())
    os.remove(path)
    local _, lion = read { "--optimizer=Lion", "--optimizer.weight_decay=null" }
    assert.matches('class = "Lion"', lion:text())
    assert.matches("weight_decay = null", lion:text())
  end)
end)

describe("optlua.config", function()
  it("gives plain scripts the same", function()
    local cfg = optlua.config({ epochs = 3, lr = arg { default = 0.1, min = 0 } }, { "--lr=0.5" })
    assert.same({ 3, 0.5 }, { cfg.epochs, cfg.lr })
    fails('optlua.config: unknown option "ephocs"', optlua.config, { epochs = 3 }, { "--ephocs=1" })
    fails("optlua.config: lr: expected a number at least 0", optlua.config, { lr = arg { default = 1, min = 0 } }, { "--lr=-1" })
  end)
end)
