--- spec: a description of a training run: the config, what is built from it, and what replaces the built-in parts.
local optlua = require "optlua"
local options = require "optlua.options"
local blame = require "optlua.blame"
local build = require "optlua.spec.build"
local choice = require "optlua.config.choice"
local Config = require "optlua.config.tree"

---@class optlua.SpecDefinition
---@field name string that of its runs' folders too
---@field config? table<string, any> values, or optlua.arg
---@field metrics? table<string, table> by name: objects with update(output, target), compute() and reset()
---@field build_model? fun(cfg: table, train: data.Dataset, default: function): any a module, or a list of parts
---@field build_data? fun(cfg: table, default: function): data.Dataset, data.Dataset?
---@field build_loss? fun(cfg: table, default: function): function
---@field parameters? fun(model_parts: any, cfg: table, default: function): any
---@field param_groups? fun(model_parts: any, cfg: table, default: function): table[]?
---@field build_optimizers? fun(model_parts: any, cfg: table, default: function): optlua.optim.Optimizer
---@field build_lr_schedulers? fun(optimizers: optlua.optim.Optimizer, cfg: table, training_steps: integer, default: function): any
---@field train_step? fun(state: optlua.State, batch: any[], default: function): optlua.Tensor?, number?
---@field on_start? fun(state: optlua.State)
---@field on_step? fun(state: optlua.State) after each update
---@field on_epoch? fun(state: optlua.State) after the last batch of an epoch
---@field on_validation? fun(state: optlua.State)
---@field on_end? fun(state: optlua.State)

---@class optlua.Spec
---@field name string
---@field config table
---@field metrics table<string, table>?
local Spec = { __name = "spec" }
Spec.__index = Spec

-- What a spec may define: functions that replace the built-in ones, in the order of their last argument, `default`.
local replaceable = {
  "build_data", "build_loss", "build_lr_schedulers", "build_model", "build_optimizers", "param_groups", "parameters", "train_step",
}
local callbacks = { "on_end", "on_epoch", "on_start", "on_step", "on_validation" }

local kind_of = { name = "string", config = "table", metrics = "table" }
for _, name in ipairs(replaceable) do kind_of[name] = "function" end
for _, name in ipairs(callbacks) do kind_of[name] = "function" end

local arg = optlua.arg

--- What the loop reads from the config of every spec.
local base_config = {
  seed = arg { default = 0, integer = true, doc = "of the initial weights, the order of data, dropout" },
  epochs = arg { type = "integer", min = 0, doc = "times that the data is gone through" },
  steps = arg { type = "integer", min = 0, doc = "updates of the run" },
  max_minutes = arg { type = "number", above = 0, doc = "time after which the run ends" },
  batch_size = arg { default = 32, integer = true, min = 1 },
  accumulate = arg { default = 1, integer = true, min = 1, doc = "batches whose gradients make one update" },
  shuffle = arg { default = true, doc = "whether each epoch has an order of its own" },
  eval_every = arg { type = "integer", min = 1, doc = "updates between two validations; default: after each epoch" },
  patience = arg { type = "integer", min = 1, doc = "validations without a better value that end the run" },
  monitor = arg { type = "string", doc = "what is best: a metric, or loss (default: the first metric, else loss)" },
  monitor_mode = arg { type = "string", choices = { "min", "max" }, doc = "default: min for what ends with loss, else max" },
  log_every = arg { default = 1, integer = true, min = 1, doc = "updates between two records of the log" },
  checkpoint_every = arg { type = "integer", min = 1, doc = "updates between two checkpoints" },
  checkpoint_minutes = arg { default = 10.0, above = 0, doc = "minutes between two checkpoints" },
  keep_last = arg { default = 3, integer = true, min = 1, doc = "checkpoints that are kept" },
  keep_best = arg { default = false, doc = "whether the checkpoint of the best validation is written and kept too" },
  tensorboard = arg { default = true, doc = "whether event files for TensorBoard stand beside the other logs" },
  max_skipped = arg { default = 10, integer = true, min = 1, doc = "updates in a row that may be skipped, or gone back from" },
  rollback_every = arg { default = 100, integer = true, min = 1,
    doc = "updates between two states that are kept in memory, with optimizer.nonfinite=rollback" },
}

-- Metrics have names, and what metrics have.
local function check_metrics(given, problems)
  for name, metric in pairs(type(given) == "table" and given or {}) do
    if type(name) ~= "string" then
      problems[#problems + 1] = ("metrics: they have names: { accuracy = … }, not %s"):format(tostring(name))
    elseif name == "loss" then
      problems[#problems + 1] = "metrics: loss is measured anyway; choose another name"
    elseif type(metric) ~= "table" or not (metric.update and metric.compute and metric.reset) then
      problems[#problems + 1] = ("metrics: %s needs update, compute and reset"):format(name)
    end
  end
end

local function check_definition(definition)
  if type(definition) ~= "table" then blame("optlua.spec: a table expected, got a " .. type(definition)) end
  local problems = {}
  for _, key in ipairs(options.names(definition)) do
    local kind = kind_of[key]
    if not kind then
      problems[#problems + 1] = options.unknown("field", tostring(key), options.names(kind_of))
    elseif type(definition[key]) ~= kind and not (kind == "function" and options.is_callable(definition[key])) then
      problems[#problems + 1] = ("%s: a %s expected, got a %s"):format(key, kind, type(definition[key]))
    end
  end
  local name = definition.name
  if name == nil then problems[#problems + 1] = "name: a word is required" end
  if type(name) == "string" and (name:find "^%.?$" or name:find "^%." or name:find "[/%c]") then
    problems[#problems + 1] = ("name: it is that of a folder too, and cannot be %q"):format(name)
  end
  check_metrics(definition.metrics, problems)
  if #problems > 0 then blame("optlua.spec: " .. table.concat(problems, "\noptlua.spec: ")) end
end

--- Describes a training run: a config, which is its command line, and functions that build its parts; the loop is built in.
--- `optlua FILE` trains a script that returns one; `spec:run()` trains it from Lua.
---
---     local optlua = require "optlua"
---     local nn = optlua.nn
---     local spec = optlua.spec {
---       name = "digits",
---       config = { epochs = 1, batch_size = 64, optimizer = { class = "AdamW", lr = 3e-3 } },
---       build_model = function(cfg) return nn.Linear(64, 10) end,
---       build_data = function(cfg) return optlua.data.digits() end,
---       build_loss = function(cfg) return nn.CrossEntropyLoss() end,
---       metrics = { accuracy = optlua.metrics.accuracy() },
---     }
---     local result = spec:run { epochs = 2 }
---     print(result.steps, result.validation.accuracy > 0.5) --> 46 true
---
--- Fields: name; config, values or optlua.arg; build_model(cfg, train), a module, or a list of parts { { "name", module }, … };
--- build_data(cfg), a training set and, if there is one, a validation set; build_loss(cfg), a function (output, target);
--- metrics, by name.
--- Each of these, where present, replaces the built-in one, which it is handed last:
---   parameters(model_parts, cfg, default): the named parameters that the optimizer sees, an iterator
---   param_groups(model_parts, cfg, default): groups, as optim.container takes them; default: those of the config
---   build_optimizers(model_parts, cfg, default): the optimizer
---   build_lr_schedulers(optimizers, cfg, training_steps, default): the scheduler
---   train_step(state, batch, default): the loss of a batch and the number of items that it is the mean of
--- Callbacks, which add to each other: on_start, on_step, on_epoch (when an epoch has ended), on_validation, on_end =
--- function(state); help "state" says what it holds.
--- A model may own configure_optimizers(self, make): it returns optimizers, by name, and schedulers; train_step then makes the
--- updates itself.
---@param definition optlua.SpecDefinition
---@return optlua.Spec
local function new(definition)
  check_definition(definition)
  local self = setmetatable({ _parts = {}, _callbacks = {}, _near = {} }, Spec)
  for key, value in pairs(definition) do self[key] = value end
  self.config = definition.config or {}
  for _, name in ipairs(replaceable) do self._parts[name] = { definition[name] } end
  for _, name in ipairs(callbacks) do self._callbacks[name] = { definition[name] } end
  Config.new(self.config, base_config) -- checks it
  return self
end

-- A section that chooses something: where that is another class, what only the old one takes goes.
local function merge_choice(kind, base, own)
  local result = {}
  base, own = choice.normalise(base) or {}, choice.normalise(own) or own
  for key, value in pairs(base) do result[key] = value end
  for key, value in pairs(own) do result[key] = value end
  local legal = own.class ~= nil and own.class ~= base.class and choice.arguments(kind, result)
  for key in pairs(legal and base or {}) do
    if key ~= "class" and own[key] == nil and legal[key] == nil then result[key] = nil end
  end
  return result
end

local function merge(base, own, path)
  local result = {}
  for key, value in pairs(base) do result[key] = value end
  for key, value in pairs(own) do
    local both = type(value) == "table" and type(result[key]) == "table" and not getmetatable(value)
      and not getmetatable(result[key]) and value[1] == nil and result[key][1] == nil
    local kind = both and choice.kind(path and { path, key } or { key })
    result[key] = kind and merge_choice(kind, result[key], value) or both and merge(result[key], value, path or key) or value
  end
  return result
end

-- Another list of groups takes nothing that the base said of the optimizer where each has another class: it goes.
local function drop_untaken(config, own)
  local section = config.optimizer and choice.normalise(config.optimizer)
  if not (own.groups and section and type(config.groups) == "table" and choice.other_classes(section, config.groups)) then return end
  local said = own.optimizer and choice.normalise(own.optimizer) or {}
  for _, key in ipairs(choice.hypers(section)) do
    if said[key] == nil then section[key] = nil end
  end
  config.optimizer = section
end

-- Keys that an extension adds though they are near one that is there.
local function near_keys(base, own)
  local near, known = {}, options.names(base)
  for _, key in ipairs(options.names(own)) do
    local meant = base[key] == nil and type(own[key]) ~= "function" and Config.meant(key, known)
    if meant then near[key] = meant end
  end
  return near
end

--- A spec that differs from this one in some fields: the config is merged key by key; functions replace these, which they are
--- handed as `default`; callbacks are added.
---@param definition? table fields of a definition; the name may be left out
---@return optlua.Spec
function Spec:extend(definition)
  if definition ~= nil and type(definition) ~= "table" then blame("spec:extend: a table expected, got a " .. type(definition)) end
  definition = definition or {}
  local own = { name = definition.name or self.name, config = merge(self.config, definition.config or {}) }
  drop_untaken(own.config, definition.config or {})
  own.metrics = definition.metrics or self.metrics
  local near = near_keys(self.config, definition.config or {})
  for key, value in pairs(definition) do own[key] = own[key] or value end
  local result = new(own)
  result._near = setmetatable(near, { __index = self._near })
  for name, chain in pairs(result._parts) do table.move(self._parts[name], 1, #self._parts[name], #chain + 1, chain) end
  for name, list in pairs(self._callbacks) do
    result._callbacks[name] = table.move(result._callbacks[name], 1, #result._callbacks[name], #list + 1, { table.unpack(list) })
  end
  return result
end

-- The built-in part of a name; that of the optimizers asks for parameters and groups.
local function builtin(self, name)
  if name ~= "build_optimizers" then return build[name] end
  return function(model_parts, cfg)
    local given = model_parts
    if self:replaces "parameters" then given = build.named(self:call("parameters", model_parts, cfg)) end
    local groups = self:call("param_groups", model_parts, cfg)
    if groups ~= nil and type(groups) ~= "table" then blame("param_groups returns a list of groups, not a " .. type(groups)) end
    return build.build_optimizers(given, cfg, groups)
  end
end

-- The k-th function of a chain, which is handed the next one as its last argument.
local function link(self, name, k)
  local fn = self._parts[name][k]
  if not fn then return builtin(self, name) end
  return function(...)
    local args = table.pack(...)
    local count = args.n
    args[count + 1] = link(self, name, k + 1)
    return fn(table.unpack(args, 1, count + 1))
  end
end

--- Calls a part: the script's, or the built-in one.
---@param name string
function Spec:call(name, ...) return link(self, name, 1)(...) end

--- Whether the script replaces a part.
function Spec:replaces(name) return #self._parts[name] > 0 end

--- Calls all callbacks of a name.
function Spec:callback(name, state)
  local list = self._callbacks[name]
  for i = 1, #list do list[i](state) end
end

-- Which function of a script takes the place of a section of the config, and of how many arguments the last is `default`.
local in_place = { data = { "build_data", 2 }, groups = { "build_optimizers", 3 }, loss = { "build_loss", 2 },
  lr_scheduler = { "build_lr_schedulers", 4 }, model = { "build_model", 3 }, optimizer = { "build_optimizers", 3 } }

-- Sections that nothing reads: the script has a function instead, which does not take the built-in one.
local function closed_sections(self)
  local closed = {}
  for section, pair in pairs(in_place) do
    local fn = self._parts[pair[1]][1]
    local info = type(fn) == "function" and debug.getinfo(fn, "u")
    if info and not info.isvararg and info.nparams < pair[2] then closed[section] = pair[1] end
  end
  return closed
end

-- Where `cfg` stands among the arguments of a part.
local cfg_at = { build_data = 1, build_loss = 1, build_lr_schedulers = 2, build_model = 1, build_optimizers = 2 }

-- Of the closed sections those that the script's function cannot read either: it takes no config, or calls it _.
local function unread_sections(closed, parts)
  local unread = {}
  for section, part in pairs(closed) do
    local fn = parts[part][1]
    local name = debug.getlocal(fn, cfg_at[part])
    if name == nil or name:find "^_" then unread[section] = part end
  end
  return unread
end

--- Its config, to be changed and then finished.
---@return optlua.Config
function Spec:new_config()
  local config = Config.new(self.config, base_config)
  for key in pairs(self.config) do config:note_near(key, self._near[key]) end
  config.open, config.closed = true, closed_sections(self)
  config.makes_groups, config.makes_optimizer = self:replaces "param_groups", self:replaces "build_optimizers"
  config.unread = unread_sections(config.closed, self._parts)
  return config
end

--- Trains: with other values of the config; nothing is written unless `out` names a folder. Ctrl-C, or SIGTERM, ends the run after
--- an update, and not the script: a loop over runs ends itself where the result has a `signal`, the number. `stopped` says why a run
--- ended before its time.
---@param overrides? table values of the config
---@param opts? { out?: string, quiet?: boolean } quiet: default true
---@return { steps: integer, loss: number, validation: table<string, number>, best: table?, model: nn.Module, state: optlua.State, stopped: string?, signal: integer? }
function Spec:run(overrides, opts)
  local run = require "optlua.spec.run"
  opts = options.check("spec:run", opts, { out = { required = false, type = "string" }, quiet = true })
  if overrides ~= nil and type(overrides) ~= "table" then blame("spec:run: a table of values expected, got a " .. type(overrides)) end
  local config = self:new_config()
  config:merge(overrides or {}, "spec:run")
  return run.train(self, config:finish "spec:run", config, opts)
end

--- What the command line does: called by the program for a script that returns a spec.
function Spec.__optlua_run(self, ...) require("optlua.spec.mistake").guard(require "optlua.spec.cli", self, ...) end

function Spec:__tostring() return ("spec %s"):format(self.name) end

return new
