--- container: one optimizer over the parts of a model, with groups of parameters and several classes.
--
-- It is an optimizer: same methods, accepted wherever one is. `optimizers` holds one optimizer a class, to look at,
-- and what wrappers built that is not of this library; `model_parts` the parts.
local options = require "optlua.options"
local backward = require "optlua.optim.backward"
local blame = require "optlua.blame"
local colon = require "optlua.colon"
local classes = require "optlua.optim.classes"
local clipping = require "optlua.optim.clipping"
local extras = require "optlua.optim.extras"
local Group = require "optlua.optim.group"
local grouping = require "optlua.optim.grouping"
local Optimizer = require "optlua.optim.optimizer"
local params = require "optlua.optim.params"
local parts = require "optlua.optim.parts"
local phase = require "optlua.optim.phase"
local storage = require "optlua.optim.storage"
local Whole = require "optlua.optim.whole"
local wrapper = require "optlua.optim.wrapper"

---@class optlua.optim.Container: optlua.optim.Optimizer
---@field optimizers table[] one a class, in the order of their first groups
---@field model_parts table[]
local Container = {}
Container.__index = Optimizer._reader(Container)
Container.__newindex = Optimizer.__newindex
Container.__name = "optimizer container"
Container.__tostring = Optimizer.__tostring

local settings = {
  max_norm = { required = false, type = "number", min = 0, doc = Whole.schema.max_norm.doc },
  grad_scale = { required = false, type = "number", above = 0, below = math.huge, doc = Whole.schema.grad_scale.doc },
  norm_type = { default = 2, choices = { 2, math.huge }, doc = "2, or math.huge for the largest absolute value" },
  nonfinite = { default = "off", choices = { "off", "error", "skip" }, doc = "what happens when a gradient is not finite" },
  ema = { required = false, type = "number", min = 0, max = 1, doc = "decay of an average of the weights" },
  state_dtype = storage.settings.state_dtype,
  state_rounding = storage.settings.state_rounding,
  track_updates = { default = false, doc = "whether stats() has the ratio of updates to weights" },
  zero = { default = false, doc = "whether gradients are absent after a step, as after zero_grad" },
  in_backward = { default = false, doc = "whether backward updates each parameter as soon as its gradient is complete" },
}
for name, option in pairs(clipping.settings) do settings[name] = option end
Container.settings = settings

-- Making -------------------------------------------------------------------------------------------------

-- The class with what the container's options add to it.
local function extend(self, class)
  if self._extras.ema ~= nil then class = extras.averaged(class) end
  if self._extras.track_updates then class = extras.measured(class) end
  return class
end

-- What the container does for all classes together is not to be done for one.
local Part = setmetatable({}, { __index = Optimizer })
for _, method in ipairs { "add_group", "eval", "load_state_dict", "register_step_post_hook", "register_step_pre_hook", "run",
  "state_dict", "step", "swap_ema", "swap_swa", "train", "with_ema", "with_eval", "with_swa" } do
  Part[method] = function(self)
    blame(("%s: %s: this optimizer is a part of a container, whose %s is for all its classes"):format(self._name, method, method))
  end
end
Part.__index, Part.__newindex = Optimizer._reader(Part), Optimizer.__newindex
Part.__name, Part.__tostring = Optimizer.__name, Optimizer.__tostring

-- One optimizer a class, over its groups; they share the container's clock and clipping.
local function add_optimizers(self, groups)
  for _, group in ipairs(groups) do
    local class = group.class.base or group.class
    local inner = self._inner[class]
    if not inner then
      inner = setmetatable({ class = class, _defaults = {} }, Part)
      inner:_init(class.name)
      inner._clock, inner._clip = self._clock, self._clip
      self._inner[class] = inner
      table.insert(self.optimizers, inner)
    end
    table.insert(inner._groups, group)
    inner._show(group)
  end
end

-- What wrappers built that is no optimizer of this library steps beside the groups.
local function add_members(self, plans)
  for _, plan in ipairs(plans) do
    for i, built in ipairs(plan.built or {}) do
      if not built._groups then
        self._members[#self._members + 1] = { name = #plan.built > 1 and plan.name .. "." .. i or plan.name,
          optimizer = built, entries = plan.entries }
        table.insert(self.optimizers, built)
      end
    end
  end
end

-- Notes the options; returns what is wrong with them. Some hold for each group that does not say otherwise.
local function set_options(self, given)
  local checked, problems = options.collect(given, settings)
  self._of_groups = {}
  for name in pairs(Group.settings) do
    if settings[name] then self._of_groups[name] = checked[name] end
  end
  self._clip = {
    measure = checked.nonfinite == "error" or checked.nonfinite == "skip",
    infinity = checked.norm_type == math.huge,
    max_norm = checked.max_norm,
    grad_scale = checked.grad_scale,
    skip = checked.nonfinite == "skip",
    zero = checked.zero,
  }
  self._whole = Whole.new(self._name, self._clock, self._clip)
  self._extras = { ema = checked.ema, track_updates = checked.track_updates }
  self._options = checked
  return problems
end

-- The options of the container, and what else is given: hyperparameters.
local function split(given)
  local hypers, opts = {}, {}
  if given ~= nil and type(given) ~= "table" then
    blame("optim.container: the arguments of the class are a table, not a " .. type(given))
  end
  for key, value in pairs(given or {}) do
    if settings[key] then opts[key] = value else hypers[key] = value end
  end
  return hypers, opts
end

local function begin(class, given)
  local self = setmetatable({ optimizers = {}, model_parts = {}, _inner = {} }, class)
  Optimizer._init(self, "optim.container")
  local read, problem, list
  if type(given) == "function" then
    read, list, problem = {}, params.list(given, 1)
  else
    read, problem = parts.read(given)
    if read then list, problem = parts.parameters(read) end
  end
  if problem then blame("optim.container: " .. problem) end
  for i, part in ipairs(read) do self.model_parts[i] = part.module end
  return self, list
end

-- Gives groups that a wrapper built what the container's options say.
local function complete_built(self, optimizer)
  local added = self._extras
  if not (optimizer._groups and (added.ema or added.track_updates or next(self._of_groups))) then return end
  for k, group in ipairs(optimizer._groups) do
    optimizer._groups[k] = group:remade(extend(self, group.unclipped), { ema_decay = added.ema }, self._of_groups)
  end
end

-- Gives plans what the container's options say.
local function complete(self, plans)
  for _, plan in ipairs(plans) do
    for _, optimizer in ipairs(plan.built or {}) do complete_built(self, optimizer) end
    if plan.class then
      plan.class = extend(self, plan.class)
      plan.origin = plan.origin or {}
      if self._extras.ema then plan.base.ema_decay, plan.origin.ema_decay = self._extras.ema, "the option ema" end
      for name, value in pairs(self._of_groups) do
        if plan.settings[name] == nil then
          plan.settings[name], plan.origin[name] = value, "the option " .. name
        end
      end
    end
  end
end

-- What wrappers build that is no optimizer of this library would see gradients that are not divided by grad_scale.
local function check_members(self, plans, problems)
  for _, plan in ipairs(plans) do
    for _, built in ipairs(plan.built or {}) do
      if not built._groups then
        problems[#problems + 1] = self._whole:refuse("grad_scale",
          ("group '%s' has an optimizer of its own, which would see gradients that are not divided by it"):format(plan.name))
      end
    end
  end
end

-- Of what the container says of single states: what no group has.
local function check_states(self, plans, problems)
  local how, known, lists = self._of_groups, {}, { self._groups, plans }
  if type(how.state_dtype) ~= "table" and type(how.state_rounding) ~= "table" or #problems > 0 then return end
  for _, plan in ipairs(plans) do
    for _, optimizer in ipairs(plan.built or {}) do lists[#lists + 1] = optimizer._groups end
  end
  for _, list in ipairs(lists) do
    for _, group in ipairs(list) do
      for name, slot in pairs(group.class and Group.states(group) or {}) do
        if not known[name] or storage.is_fixed(known[name]) then known[name] = slot end
      end
    end
  end
  local wrong = storage.check(how, known)
  table.move(wrong, 1, #wrong, #problems + 1, problems)
end

-- A step of its own takes gradients and states as they are.
local function check_step(self, class, problems)
  if not class.step then return end
  local why = ("%s has a step of its own, which takes gradients and states as they are"):format(class.name)
  for _, name in ipairs { "max_norm", "grad_scale" } do problems[#problems + 1] = self._whole:refuse(name, why) end
  for _, name in ipairs(options.names(self._of_groups)) do
    if clipping.schema[name] or storage.settings[name] then problems[#problems + 1] = ("%s: %s"):format(name, why) end
  end
end

local function check_steps(self, plans, problems)
  for _, plan in ipairs(plans) do
    if plan.class then check_step(self, plan.class, problems) end
    for _, optimizer in ipairs(plan.built or {}) do
      for _, group in ipairs(optimizer._groups or {}) do check_step(self, group.class, problems) end
    end
  end
end

local function finish(self, plans, problems)
  check_members(self, plans, problems)
  check_steps(self, plans, problems)
  backward.check(self, plans, problems)
  check_states(self, plans, problems)
  self:_check(plans, problems)
  complete(self, plans)
  local groups = self:_adopt(plans)
  add_optimizers(self, groups)
  add_members(self, plans)
  if self._options.in_backward then backward.attach(self, groups) end
  return self
end

local function of_class(self, list, class, kwargs)
  local hypers, opts = split(kwargs)
  local problems = set_options(self, opts)
  self.class, self._defaults = class, hypers
  params.note_empty("optim.container", self.model_parts[1] or params.iterate(list), #list)
  local plan, wrong = Group.plan(class, "default", list, hypers)
  plan.plain = true
  table.move(wrong, 1, #wrong, #problems + 1, problems)
  return finish(self, { plan }, problems)
end

-- A list of groups has no keys; they would be those of a group whose braces were left out.
local function check_list(groups)
  for key in pairs(groups) do
    if math.type(key) ~= "integer" then
      blame(("optim.container: '%s' stands in the list of groups; each group is a table of its own: "
        .. "{ { match = \"*\", class = … }, … }"):format(tostring(key)))
    end
  end
  local hole = options.hole(groups)
  if hole then blame(("optim.container: item %d of the groups is nil"):format(hole)) end
end

-- The class and the hyperparameters that groups take where they leave them out.
local function read_defaults(given)
  local hypers, opts = split(given)
  local defaults = { hypers = hypers }
  if hypers.class ~= nil then
    local problem
    defaults.class, problem = classes.resolve(hypers.class)
    if problem then blame("optim.container: " .. problem) end
    hypers.class = nil
  end
  if wrapper.is(defaults.class) then
    blame(("optim.container: groups cannot take what they leave out from the wrapper %s, which makes groups itself; "
      .. "hand it over as the class, without groups"):format(defaults.class.name))
  end
  return defaults, opts
end

local function of_groups(self, list, groups, given)
  check_list(groups)
  local defaults, opts = read_defaults(given)
  local problems = set_options(self, opts)
  self._defaults, self._default_class = defaults.hypers, defaults.class
  local plans, tests = grouping.plan(groups, list, { defaults = defaults, settings = settings }, problems)
  self._tests = tests
  return finish(self, plans, problems)
end

--- Makes an optimizer for a model, with a class of optimizers for all of it, or groups of parameters that
--- are updated differently. A container is an optimizer and has all its methods; `optimizers` holds one
--- optimizer for each class, to look at (groups, stats, plan), `model_parts` the modules.
---
---     local optlua = require "optlua"
---     local nn, optim = optlua.nn, optlua.optim
---     local model = nn.Sequential { nn.Embedding(10, 4), nn.LayerNorm(4), nn.Linear(4, 2) }
---     local optimizer = optim.container(model, {
---       { name = "small", match = { role = { "bias", "norm" } }, class = "AdamW", weight_decay = 0 },
---       { name = "table", match = "0.*|*.embedding.*", class = "SGD", lr = 0.1, expect = 1 },
---       { name = "rest", match = "*", class = optim.AdamW, lr = 3e-4 },
---     }, { max_norm = 1 })
---     for _, name in ipairs(optimizer.groups.small.names) do print(name) end --> 1.weight 1.bias 2.bias
---
--- container(model, class, kwargs): all parameters in one group, "default", of a class or its name. kwargs are
--- the hyperparameters and the options below.
--- container(model, groups, options): a list of groups { name =, match =, class =, <hyperparameters> }.
---   name: a word; default "group1", "group2" …
---   class: an optimizer class, its name, a wrapper, or the name of a module that returns one; around a name may stand that of a
---    transform: "Lookahead(AdamW)", also "SWA(…)", "Centralize(…)" and "SAM(…)", one that optim.register has named, or that a
---    module returns. The groups of a wrapper are named after both: "group.inner"
---   match: which parameters the group takes; each goes to the first group that matches it
---   expect: how many parameters it takes, or it is an error; when left out, only none is one
---   optional = true: it may take none
---   lr_scale, wd_scale: multiply lr and weight_decay, wherever they come from
---   unfreeze_at: its parameters are frozen until so many updates have been made
---   state_dtype, state_rounding, clip_value, agc, agc_eps, max_group_norm: as below, for this group; those that clip can
---    also be given to a class, optim.AdamW(model, { clip_value = 1 })
--- What a group leaves out comes from the options, where they name a class or hyperparameters: { class =
--- "AdamW", lr = 1e-3 } holds for the groups of AdamW and those without a class; without a class there, for
--- every group whose class has the hyperparameter. What no group takes is an error.
---
--- What match can be:
---   "*.bias": a glob on the full name of the parameter. `*` stands for any characters, dots too; "*.bias"
---    also matches a bare bias; "a.*|b.*" is either, and so is the list { "a.*", "b.*" }
---   a table of conditions, all of which must hold; each has a value or a list of values:
---    ndim, the number of dimensions; type, the class of the module that owns it ("Linear"); role,
---    "weight", "bias", "norm" (all of a norm layer), "embedding", or what a layer declares; pattern, a
---    Lua pattern on the full name: "%.bias$"
---   a function (name, parameter, module) that returns whether it matches
---
--- Options:
---   grad_scale: what the loss was multiplied with: gradients are divided by it before everything else; default 1
---   max_norm: gradients whose norm together is larger are scaled down to it; default none, math.huge only measures
---   max_group_norm: the same for the gradients of each group by itself
---   norm_type: 2, or math.huge for the largest absolute value; default 2
---   agc: adaptive clipping (Brock et al., 2021): the gradients of a unit, a row over all dimensions but the first or a whole vector,
---    are scaled down where their norm is larger than agc times that of the weights, which counts as agc_eps (default 1e-3) at least
---   clip_value: each element of a gradient is kept within ±clip_value
---   zero = true: after a step gradients are absent, as after zero_grad; where the step raises, they stay
---   nonfinite: "off"; "error" to raise when a gradient is not finite, as max_norm does too; "skip" to make no
---    update then, and clear the gradients; default "off". (A spec knows "rollback" besides)
---   ema: keeps an average of the weights: average = ema * average + (1 - ema) * weight after each update.
---    optimizer:with_ema(fn) calls fn with the averages in the model
---   state_dtype: how states are stored: "bfloat16" in half the memory; "8bit" in codes of 8 bits, but those
---    declared positive (second moments) in bfloat16; "8bit-all" all in codes; "float32", "float64"; or a table
---    of such words by state, { exp_avg = "8bit" }. Codes hold for parameters of 4,096 elements and more, and
---    have a scale for each 256; averages and other copies of the parameter stay exact. Default: as the parameter
---   state_rounding: "nearest", "stochastic", or a table of such by state, for bfloat16 and codes; default:
---    stochastic for states declared positive, which would cease to decay, and for those whose class says so;
---    nearest for the others. The noise is the same for the same seed (optlua.manual_seed when the optimizer is
---    made; it is saved), update, parameter and state
---   track_updates: stats() then has the ratio of the norm of the update to that of the weights
---   in_backward: true to update each parameter during backward, as soon as its gradient is complete, and free the gradient
---    then: memory for the gradients of one layer, not of all. The bits are those of an ordinary update
---
--- Gradients are changed as they are read, in the pass of the update, and never written. In this order: they are divided by
--- grad_scale, must be finite (where a norm or nonfinite asks for it), and are clipped by the norm of the group, by the norm of
--- all, by agc, by clip_value; the rule sees the result. stats().grad_norm is the norm before clipping.
---
--- optimizer.max_norm and optimizer.grad_scale are fields that can be read and set between steps (nil: none), the other limits
--- those of groups, optimizer.groups.NAME.clip_value; optim.scheduler moves all of them. They are saved: a loss scale goes on as it
--- was. Clipping that was added or taken away since a save is no obstacle to loading.
---
---     local layer = nn.Linear(2, 1, { bias = false })
---     local careful = optim.container(layer, "SGD", { lr = 1, grad_scale = 1024, clip_value = 0.5, zero = true })
---     local before = layer.weight:detach():clone()
---     local loss = (layer.weight * 3):sum()
---     ;(loss * careful.grad_scale):backward()
---     careful:step()
---     print(layer.weight:detach() - before, layer.weight.grad) --> tensor([[-0.5000, -0.5000]]) nil
---
--- With in_backward, loss:backward() makes the update, and optimizer:step() ends it: it counts it, the clock of schedules goes
--- on, hooks after a step run. It must be called after one backward, or several that share no parameter: to update a parameter
--- twice before it is an error. Gradients are absent afterwards; a hook of a parameter sees its own, and may replace it. An error
--- of a schedule or a rule is raised by backward before anything has changed; one that comes later (a hook, a gradient that is not
--- finite, lack of memory) leaves the parameter whose turn it is as it was, and all that would have come after it; what came
--- before stays updated. Refused, since they need all gradients at once: max_norm, max_group_norm, nonfinite = "skip", track_updates,
--- rules with `after` or group_add; and closures, hooks before a step, several batches for one update. A tensor that is
--- computed from a parameter and detached cannot be used beside it, as it changes before backward has done with it. Of
--- optimizers for the same parameters the one that was made last has the gradients.
---
---     local deep = nn.Sequential { nn.Linear(4, 4), nn.Linear(4, 1) }
---     local frugal = optim.container(deep, "SGD", { lr = 0.1, in_backward = true })
---     deep(optlua.ones { 1, 4 }):sum():backward() -- updates, the last layer first
---     frugal:step()
---     print(frugal:stats().updates, deep[1].weight.grad) --> 1 nil
---
--- Parameters that are frozen (requires_grad is false) are in their group, but are not updated until they are
--- woken. Parts of a model that have names, { { "encoder", a }, { "head", b } }, prefix their parameters:
--- "head.weight". A tensor that occurs twice (tied) is one parameter, with its first name. Everything that is
--- wrong — a parameter without a group, a group without one, a misspelt word — is said in one error.
---@param model any a module, a list of modules, a list of { name, module }, or an iterator (name, parameter, module)
---@param what any a class, its name, or a list of groups
---@param opts? table
---@return optlua.optim.Container
function Container.new(self, model, what, opts, ...)
  if select("#", ...) > 0 then
    blame "optim.container: at most three arguments; the container's options stand in the last one, beside the class's"
  end
  local new, list = begin(self, model)
  local kind = params.kind(what)
  if kind == "module" or kind == "optimizer" then
    blame(("optim.container: a class, its name, or a list of groups expected, got %s"):format(kind == "module" and "a module" or "an optimizer"))
  end
  if type(what) == "table" and not classes.is_class(what) then return of_groups(new, list, what, opts) end
  local class, problem = classes.resolve(what)
  if not class then blame("optim.container: " .. problem) end
  return of_class(new, list, class, opts)
end

setmetatable(Container, { __index = Optimizer, __call = Container.new })

--- Adds a group { name =, params =, class =, <hyperparameters> } of parameters that are not there yet. In
--- a container of one class it is of that class.
---@param given table
function Container:add_group(given)
  phase.check(self, "add_group")
  if type(given) ~= "table" or given.params == nil then
    blame "optim.container: add_group: a table with params expected"
  end
  local class = self.class or self._default_class
  if given.class ~= nil or not class then
    local problem
    class, problem = classes.resolve(given.class)
    if problem then blame("optim.container: add_group: " .. problem) end
  end
  if self.class and class ~= self.class then
    blame(("optim.container: add_group: this container is of the class %s, not %s"):format(self.class.name, class.name))
  end
  local rest = {}
  for key, value in pairs(given) do
    if key ~= "class" then rest[key] = value end
  end
  local defaults = { class = self.class or self._default_class, hypers = self._defaults }
  local plan, problems = self:_plan(class, rest, grouping.inherited(class, defaults))
  finish(self, { plan }, problems)
end
Container.add_group = colon.method("add_group", Container.add_group, Optimizer._is, "optimizer")

--- Makes one optimizer of several.
---@param name string
---@param list table[] optimizers
---@return optlua.optim.Container
function Container.combine(name, list)
  local self = setmetatable({ optimizers = {}, model_parts = {}, _inner = {}, _defaults = {} }, Container)
  Optimizer._init(self, name)
  set_options(self, {})
  local problems = {}
  for _, optimizer in ipairs(list) do problems[#problems + 1] = Group.left_behind(name, optimizer) end
  return finish(self, { { name = name, entries = {}, built = list, plain = true } }, problems)
end

-- Sets a field of a container that is extended: any but those that are its groups'.
local function set_own(self, name, value)
  if Optimizer._set_whole(self, name, value) then return end
  Optimizer._refuse_field(self, name)
  rawset(self, name, value)
end

--- Makes a kind of containers with methods of its own: called like `optim.container`.
---@param methods table<string, function>
---@return table
function Container:extend(methods)
  local class = {}
  if type(methods) ~= "table" then blame("container:extend: a table of methods expected, got a " .. type(methods)) end
  for key, value in pairs(methods) do class[key] = value end
  class.__index, class.__name, class.__tostring = Optimizer._reader(class), Container.__name, Container.__tostring
  class.__newindex = class.__newindex or set_own
  return setmetatable(class, { __index = self, __call = Container.new })
end

return Container
