--- build: how a spec makes its parts from the config, where the script does not say otherwise.
local optlua = require "optlua"
local options = require "optlua.options"
local blame = require "optlua.blame"
local choice = require "optlua.config.choice"
local classes = require "optlua.optim.classes"
local optim = require "optlua.optim"
local params = require "optlua.optim.params"
local schedule = require "optlua.schedule"
local wrapper = require "optlua.optim.wrapper"

local build = {}

-- Arguments of a section: all but the class.
local function arguments(section)
  local args = {}
  for key, value in pairs(section) do
    if key ~= "class" then args[key] = value end
  end
  return args
end

-- Arguments of an optimizer.
local function optimizer_arguments(section)
  local args = arguments(section)
  for key, value in pairs(choice.spec_defaults) do
    if args[key] == nil then args[key] = value end
  end
  if args.nonfinite == "rollback" then args.nonfinite = "skip" end -- the loop does the rest
  return args
end

local function from_section(factory, key)
  return function(cfg)
    local section = cfg[key]
    if not section then blame(("the spec has neither build_%s nor a section %s in its config"):format(key, key)) end
    return factory().resolve(section.class)(arguments(section))
  end
end

build.build_model = from_section(function() return optlua.models end, "model")
build.build_loss = from_section(function() return optlua.losses end, "loss")
local find_data = from_section(function() return optlua.datasets end, "data")

function build.build_data(cfg)
  local sets = find_data(cfg)
  return sets[1], sets[2]
end

--- The parameters that the optimizer sees: name, parameter, module; default: those of all parts.
function build.parameters(model_parts)
  local list = assert(require("optlua.optim.parts").read(model_parts))
  local entries, problem = require("optlua.optim.parts").parameters(list)
  if problem then blame("parameters: " .. problem) end
  return params.iterate(entries)
end

--- What the script's `parameters` returned, as an iterator: it may be a module or a list too.
---@param given any
---@return function
function build.named(given)
  local list, problem = params.list(given, 1)
  if problem then blame("parameters: " .. problem) end
  if #list == 0 then blame "parameters: there is none left to train" end
  return params.iterate(list)
end

--- The groups of parameters; default: those of the config.
function build.param_groups(_, cfg) return cfg.groups end

--- The optimizer over model_parts, as the config says: a class and its arguments, by group where there are groups.
---@param model_parts any a module, parts, or an iterator of named parameters
---@param cfg table
---@param groups table[]?
---@return optlua.optim.Optimizer
function build.build_optimizers(model_parts, cfg, groups)
  local section = cfg.optimizer
  if not section then blame "the config has no section optimizer, and the spec no build_optimizers" end
  local args = optimizer_arguments(section)
  local class, problem = classes.resolve(section.class)
  if problem then blame("optimizer: " .. problem) end
  if groups and wrapper.is(class) then
    blame(("the wrapper %s makes groups itself; switch those of the config off: --groups=null, or groups: null in a "
      .. "config file"):format(class.name))
  end
  if not groups then return optim.container(model_parts, class, args) end
  args.class = class
  return optim.container(model_parts, groups, args)
end

--- A schedule of a section of the config; what it needs to know of the run is filled in.
---@param section table { class =, arguments }
---@param training_steps integer
---@return optlua.Schedule|function
function build.schedule(section, training_steps)
  if type(section.class) ~= "string" then return section.class end
  local constructor, args = schedule.resolve(section.class), arguments(section)
  args.interval = nil
  for name in pairs(choice.is_length) do
    local option = constructor.args[name]
    if option and args[name] == nil and options.describe(option).default == nil then
      args[name] = math.max(training_steps, args.warmup_steps or 1) -- a run may end while it warms up
    end
  end
  if section.class:find "^[Oo]ne_?[Cc]ycle" and args.epochs then args.total_steps = nil end
  return constructor(args)
end

--- The schedulers of an optimizer, as the config says; nil where it says none.
function build.build_lr_schedulers(optimizers, cfg, training_steps)
  local section = cfg.lr_scheduler
  if not section then return nil end
  return optim.lr_scheduler(optimizers, build.schedule(section, training_steps), { interval = section.interval })
end

-- The number of items that the mean of a loss is over: classes or tokens, or else items of the batch.
local function count_of(target)
  if not optlua.is_tensor(target) then return 1 end
  if target.dtype == "int64" then return target:numel() end
  return target.ndim > 0 and #target or 1
end

--- The loss of a batch, and how many items it is the mean of: the last value of a batch is the target, the others are the
--- model's inputs.
function build.train_step(state, batch)
  local count = #batch
  if count < 2 then blame "a batch holds inputs and a target; for others write a train_step" end
  local output = state.model(table.unpack(batch, 1, count - 1))
  return state.loss_fn(output, batch[count]), count_of(batch[count])
end

-- Injected factories -----------------------------------------------------------------------------------------

-- A table of functions by the names of a section.
local function by_name(what, sections, make)
  local list, names = {}, {}
  for name, section in pairs(sections) do
    list[name] = function(...) return make(section, ...) end
    names[#names + 1] = name
  end
  table.sort(names)
  return setmetatable(list, {
    __index = function(_, name) blame(("make.%s: %s"):format(what, options.unknown("section", tostring(name), names))) end,
  })
end

local function make_optimizer(section, given)
  local class = classes.resolve(section.class)
  return optim.container(given, class, optimizer_arguments(section))
end

--- What a model's `configure_optimizers(self, make)` is handed: `make.optimizers.NAME(params)` and
--- `make.lr_schedulers.NAME(optimizer)` for the sections of the config, `make.optimizer(params)` and
--- `make.lr_scheduler(optimizer)` for the single ones.
---@param cfg table
---@param training_steps integer
---@return table
function build.injected(cfg, training_steps)
  local function scheduler(section, optimizer)
    return optim.lr_scheduler(optimizer, build.schedule(section, training_steps), { interval = section.interval })
  end
  local make = {
    optimizers = by_name("optimizers", cfg.optimizers or {}, make_optimizer),
    lr_schedulers = by_name("lr_schedulers", cfg.lr_schedulers or {}, scheduler),
  }
  if cfg.optimizer then make.optimizer = function(given) return make_optimizer(cfg.optimizer, given) end end
  if cfg.lr_scheduler then make.lr_scheduler = function(optimizer) return scheduler(cfg.lr_scheduler, optimizer) end end
  return make
end

return build
