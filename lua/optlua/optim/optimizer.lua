--- optimizer: what every optimizer can do: a step, groups, states, printing.
local core = require("optlua.core").hidden.optim
local options = require "optlua.options"
local backward = require "optlua.optim.backward"
local blame = require "optlua.blame"
local colon = require "optlua.colon"
local clipping = require "optlua.optim.clipping"
local forms = require "optlua.optim.forms"
local Group = require "optlua.optim.group"
local hooks = require "optlua.optim.hooks"
local hyper = require "optlua.optim.hyper"
local overview = require "optlua.optim.overview"
local params = require "optlua.optim.params"
local phase = require "optlua.optim.phase"
local planning = require "optlua.optim.planning"
local statedict = require "optlua.optim.statedict"
local stepping = require "optlua.optim.stepping"
local transaction = require "optlua.optim.transaction"

---@class optlua.optim.Optimizer
---@field groups table<string|integer, table> live: `groups.<name>.<hyperparameter>` reads and sets
local Optimizer = {}
Optimizer.__index = Optimizer
Optimizer.__name = "optimizer"

-- Groups, as scripts see them ---------------------------------------------------------------------------

local group_of = setmetatable({}, { __mode = "k" })
local Face = { __name = "group" }

function Face:__index(key)
  local group = group_of[self]
  if group.class.hyper[key] then return group:read(key) end
  if key == "name" then return group.name end
  if key == "class" then return group.class end
  if key == "params" then return table.move(group.params, 1, #group.params, 1, {}) end
  if key == "names" then return table.move(group.names, 1, #group.names, 1, {}) end
  blame(("%s: %s"):format(group.title, options.unknown("field", key, group.class.hyper_names)))
end

function Face:__newindex(key, value) group_of[self]:assign(key, value) end

function Face:__pairs()
  local group, values = group_of[self], {}
  for _, name in ipairs(group.class.hyper_names) do values[name] = group:read(name) end
  return next, values
end

function Face:__tostring()
  local group = group_of[self]
  local count, elements = #group.params, 0
  for _, tensor in ipairs(group.params) do elements = elements + tensor:numel() end
  local lines = { ("%s: %d parameter%s, %d element%s"):format(group.name, count, count == 1 and "" or "s",
    elements, elements == 1 and "" or "s") }
  for i, name in ipairs(group.class.hyper_names) do
    lines[i + 1] = ("  %s = %s"):format(name, hyper.text(group:read(name)))
  end
  return table.concat(lines, "\n")
end

local function face(group)
  local self = setmetatable({}, Face)
  group_of[self] = group
  return self
end

--- The groups of an optimizer, by name and by number in their order; `#` counts them, pairs goes through
--- them. A group that a script did not name is "default", or "group1", "group2" … in a list.
---
---     local optlua = require "optlua"
---     local optimizer = optlua.optim.AdamW(optlua.nn.Linear(2, 3), { lr = 0.1 })
---     optimizer.groups.default.lr = 0.01
---     for i, group in pairs(optimizer.groups) do print(i, group.name, group.lr) end --> 1 default 0.01
---     print(table.concat(optimizer.groups[1].names, " ")) --> weight bias
---
--- groups.<name>.<hyperparameter> reads the value that the last update used (before the first one, and after
--- an assignment, the one that the next will use); assigning is checked like at construction and sets
--- the base, to which schedules apply. Lists are assigned as a whole. Other fields: name, class, params, names.
local function list_groups()
  local list, by_name = {}, {}
  local self = setmetatable({}, {
    __index = function(_, key)
      local found = list[key] or by_name[key]
      if found or math.type(key) == "integer" then return found end
      local names = {}
      for i, group in ipairs(list) do names[i] = group.name end
      blame(options.unknown("group", key, names))
    end,
    __newindex = function() blame "groups are added by add_group" end,
    __len = function() return #list end,
    __pairs = function() return ipairs(list) end,
  })
  local function add(group)
    local one = face(group)
    list[#list + 1], by_name[group.name] = one, one
  end
  return self, add
end

-- Making ------------------------------------------------------------------------------------------------

--- Gives an object what an optimizer has: no groups yet, a clock, no clipping.
---@param self table
---@param name string for messages
function Optimizer._init(self, name)
  self._name = name
  self._groups, self._clock, self._clip = {}, { updates = 0 }, {}
  self._followers = {} -- by hyperparameter: how groups to come will follow its scheduler
  self._members = {} -- what steps beside the groups: { name =, optimizer = }
  self._before, self._after = {}, {} -- hooks of a step
  self._skipped = 0
  self._special = false -- whether a class does more than rules do
  self._has_numbers = false -- whether a group has numbers
  self._has_forms = false -- whether parameters of a group have two forms
  -- What each step looks at is false where there is none: nil would be sought in the class.
  self._phase, self._updater, self._whole, self._norm, self._idle = false, false, false, false, false
  self.groups, self._show = list_groups()
end

-- The groups of the optimizers that a wrapper built, and their names, after both: "outer.inner"; where optimizers have groups
-- of the same name, it is numbered: "outer.1.inner".
local function built_groups(plan)
  local groups, names, seen, clash = {}, {}, {}, false
  for i, optimizer in ipairs(plan.built) do
    for _, group in ipairs(optimizer._groups or {}) do
      groups[#groups + 1] = { group, i }
      clash = clash or seen[group.name] ~= nil
      seen[group.name] = true
    end
  end
  for k, pair in ipairs(groups) do
    local name = clash and pair[2] .. "." .. pair[1].name or pair[1].name
    groups[k], names[k] = pair[1], plan.plain and name or plan.name .. "." .. name
  end
  return groups, names
end

-- The groups of a plan: one, or those of the optimizers that a wrapper built.
local function make_groups(plan, clock)
  if not plan.built then return { Group.new(plan, clock) } end
  local groups, names = built_groups(plan)
  for k, group in ipairs(groups) do group:join(names[k], clock) end
  return groups
end

--- Adds groups that were planned; all are made before any is added.
---@param self table
---@param plans table[]
function Optimizer._adopt(self, plans)
  local made = {}
  for _, plan in ipairs(plans) do
    for _, group in ipairs(make_groups(plan, self._clock)) do
      made[#made + 1] = group
      for _, follow in pairs(self._followers) do follow(group) end
    end
  end
  for _, group in ipairs(made) do
    if group.has_limit then self._clip.measure = true end
    if group.has_numbers then self._has_numbers = true end
    if group.class.rules.eval then self._has_forms = true end
    if group.class.step or group.class.gradients then self._special = true end
    table.insert(self._groups, group)
    self._show(group)
  end
  return made
end

-- Names that parameters of earlier groups have get the name of their own group as a prefix.
local function distinguish(groups, plans)
  local taken = {}
  for _, group in ipairs(groups) do
    for i, name in ipairs(group.names) do taken[name] = group.params[i] end
  end
  for _, plan in ipairs(plans) do params.distinguish(plan.entries, plan.name, taken) end
end

--- All entries { name, tensor, module } of groups and plans, for checks across groups.
local function entries_of(groups, plans)
  local all = {}
  for _, group in ipairs(groups) do
    for i, name in ipairs(group.names) do all[#all + 1] = { name, group.params[i] } end
  end
  for _, plan in ipairs(plans) do table.move(plan.entries, 1, #plan.entries, #all + 1, all) end
  return all
end

local function name_clash(groups, plans)
  local seen = {}
  for _, group in ipairs(groups) do seen[group.name] = true end
  for _, plan in ipairs(plans) do
    local names = { plan.name }
    if plan.built then names = select(2, built_groups(plan)) end
    for _, name in ipairs(names) do
      if seen[name] then return ("two groups are named '%s'"):format(name) end
      seen[name] = true
    end
  end
end

-- What is wrong with the clipping of a planned group, which takes from the container what it leaves out.
local function clip_problem(self, plan)
  if not plan.class then return nil end
  local problem = clipping.check(plan.settings, self._of_groups or {})
  return problem and ("group '%s': %s"):format(plan.name, problem)
end

--- Raises all problems at once; also those between groups.
---@param self table
---@param plans table[]
---@param problems string[]
function Optimizer._check(self, plans, problems)
  distinguish(self._groups, plans)
  for _, plan in ipairs(plans) do problems[#problems + 1] = clip_problem(self, plan) end
  problems[#problems + 1] = name_clash(self._groups, plans)
  problems[#problems + 1] = params.clash(entries_of(self._groups, plans))
  if #problems > 0 then blame(("%s: %s"):format(self._name, table.concat(problems, "\n" .. self._name .. ": "))) end
end

local function count_params(groups)
  local count = 0
  for _, group in ipairs(groups) do count = count + #group.params end
  return count
end

--- Makes an optimizer of a class: what calling the class does.
---@param class optlua.optim.Class
---@param given any parameters: a module, an iterator, a list, or a list of groups
---@param opts? table hyperparameters
---@return optlua.optim.Optimizer
function Optimizer.new(class, given, opts)
  local self = setmetatable({ class = class }, Optimizer)
  Optimizer._init(self, class.name)
  if given == nil then blame(class.name .. ": parameters expected: a module, an iterator, a list, or groups") end
  if planning.is_group(given) and not params.is_module(given) then
    blame(("%s: the parameters stand first, alone: optim.%s(parameters, { lr = 0.1 }); several groups stand in a list")
      :format(class.name, class.name))
  end
  if opts ~= nil and params.kind(opts) ~= "table" then
    blame(("%s: hyperparameters are a table, { lr = 0.1 }, not a %s"):format(class.name, params.kind(opts)))
  end
  local planned, problems = planning.all(class, given, opts or {})
  self._defaults = opts or {}
  self:_check(planned, problems)
  self:_adopt(planned)
  params.note_empty(class.name, given, count_params(self._groups))
  return self
end

--- Plans a group to be added to those that are there.
---@param self table
---@param class optlua.optim.Class
---@param given table
---@param defaults table<string, any> stand in for what it leaves out
---@return table? plan
---@return string[] problems
function Optimizer._plan(self, class, given, defaults)
  local plan, problems = planning.group(class, given, defaults, "group" .. #self._groups + 1, count_params(self._groups) + 1)
  if plan and #plan.entries == 0 then table.insert(problems, 1, ("group '%s' has no parameters"):format(plan.name)) end
  return plan, problems
end

--- Adds a group { name =, params =, <hyperparameters> }. Where one of its parameters has a name that is taken,
--- all of them get the name of the group as a prefix: "group2.weight". What it leaves out comes from the options that
--- the optimizer was made with. Schedules for all groups hold for it too.
---@param given table
function Optimizer:add_group(given)
  phase.check(self, "add_group")
  if not planning.is_group(given) then blame(self._name .. ": add_group: a table with params expected") end
  local plan, problems = self:_plan(self.class, given, self._defaults)
  self:_check({ plan }, problems)
  self:_adopt({ plan })
end

-- Fields -----------------------------------------------------------------------------------------------

--- Whether a name is a hyperparameter of one of an optimizer's groups.
local function has_hyper(self, name)
  for _, group in ipairs(rawget(self, "_groups") or {}) do
    if group.class.hyper[name] then return group end
  end
end

-- Says where the values are that PyTorch, or a guess, has as fields of the optimizer.
function Optimizer._refuse_field(self, name)
  local group = has_hyper(self, name)
  if group or name == "param_groups" then
    local key = group and name or "lr"
    blame(("%s: %s is no field of the optimizer; the values are those of its groups: optimizer.groups.%s.%s"):format(self._name,
      name, group and group.name or "NAME", key))
  end
  if require("optlua.optim.container").settings[name] then
    blame(("%s: '%s' is an option, which is given when the container is made: optim.container(model, …, { %s = … })"):format(
      self._name, name, name))
  end
end

local own = { class = true, groups = true, optimizers = true, model_parts = true }

--- Sets a number of the optimizer as a whole, where it has one of that name: max_norm or grad_scale of a container.
---@return boolean done
function Optimizer._set_whole(self, name, value)
  local whole = rawget(self, "_whole")
  if not (whole and whole.class.hyper[name]) then return false end
  whole:assign(name, value)
  return true
end

--- Lets an optimizer have no fields but its own: a value that is set where nothing reads it raises.
function Optimizer:__newindex(name, value)
  if Optimizer._set_whole(self, name, value) then return end
  if type(name) == "string" and not own[name] and not name:find "^_" then
    Optimizer._refuse_field(self, name)
    blame(("%s: an optimizer has no field %s; hyperparameters are those of its groups: optimizer.groups.NAME.lr = 0.1")
      :format(self._name, name))
  end
  rawset(self, name, value)
end

--- Reads a field of an optimizer's class; where hyperparameters are asked for, says where they are.
function Optimizer._reader(class)
  return function(self, name)
    local value = class[name]
    if value ~= nil or type(name) ~= "string" or name:find "^_" then return value end
    local whole = rawget(self, "_whole")
    if whole and whole.class.hyper[name] then return whole:read(name) end
    Optimizer._refuse_field(self, name)
  end
end

Optimizer.__index = Optimizer._reader(Optimizer)

-- Use --------------------------------------------------------------------------------------------------

--- Updates every parameter whose gradient is present. With a closure, calls it first, with recording, and returns what
--- it returns: it computes the gradients anew. Classes that need a closure (LBFGS) call it themselves, several times;
--- what the first call returned is returned, and running statistics of batch norms are those of the first. A step is a transaction: an error leaves everything as it
--- was, but for one in the `after` of a class: the update has been made then. A step without any gradient does
--- nothing and is not counted; of two in a row stderr is told, once.
---@param closure? fun(): any
---@return any
function Optimizer:step(closure)
  if type(self) ~= "table" then colon.refuse("step", self, "optimizer") end
  phase.check(self, "step")
  if self._updater then
    backward.step(self, closure)
    return hooks.run(self, self._after, "after")
  end
  return stepping.step(self, closure)
end

--- Calls a function with the optimizer before each step: it sees the gradients and may change them. An error
--- in it is raised by the step, which then does nothing.
---@param fn fun(optimizer: optlua.optim.Optimizer)
---@return optlua.optim.Hook # its method `remove` takes it away
function Optimizer:register_step_pre_hook(fn)
  if self._updater then
    blame(self._name .. ": register_step_pre_hook: with in_backward no gradient is there at the step; a hook of a parameter "
      .. "sees its own: parameter:register_hook(fn)")
  end
  return hooks.add(self._name .. ": register_step_pre_hook", self._before, fn)
end

--- Calls a function with the optimizer after each step.
---@param fn fun(optimizer: optlua.optim.Optimizer)
---@return optlua.optim.Hook # its method `remove` takes it away
function Optimizer:register_step_post_hook(fn) return hooks.add(self._name .. ": register_step_post_hook", self._after, fn) end

--- Makes all gradients absent; their memory is kept.
function Optimizer:zero_grad()
  local groups, others = self._groups, self._members
  for i = 1, #groups do groups[i].handle:zero_grad() end
  for i = 1, #others do others[i].optimizer:zero_grad() end
end

--- Runs a named rule of its class, on the parameters that were updated at least once. In a container: of
--- each class that has it.
---@param name string
function Optimizer:run(name)
  local known = {}
  for _, group in ipairs(self._groups) do
    for rule in pairs(group.class.rules) do known[rule] = true end
  end
  if not known[name] then blame(("%s: run: %s"):format(self._name, options.unknown("rule", name, options.names(known)))) end
  if forms.methods[name] then return self[name](self) end
  phase.check(self, "run")
  transaction.run(self, name)
end

--- Gives parameters the form for evaluation, where the class has two; nothing otherwise.
function Optimizer:eval()
  phase.check(self, "eval")
  forms.eval(self)
end

--- Gives parameters the form for training again: bit for bit what they were, unless they were written meanwhile.
function Optimizer:train()
  phase.check(self, "train")
  forms.train(self)
end

--- Calls a function while the model holds what is to be evaluated: the averages of the weights, where the container (ema) or the
--- class (SWA) keeps some, or the form for evaluation, where the class has two; else it only calls it. Afterwards, also after an
--- error, weights and running statistics of batch norms are what they were, bit for bit: copies are kept meanwhile. Inside, the
--- optimizer refuses what would change it or take the averages for weights: step, load_state_dict …
---@param fn function
---@return any ... what it returns
function Optimizer:with_eval(fn, ...) return forms.with_eval(self, fn, ...) end

-- What saves calls: see forms.
function Optimizer:_evaluated(fn)
  phase.check(self, "state_dict")
  return forms.evaluated(self, fn)
end
function Optimizer:_mode() return forms.mode(self) end

--- Exchanges the weights and their averages, where the container keeps some (ema); parameters that were
--- never updated stay. Until they are exchanged again the optimizer refuses what would take the averages for weights.
function Optimizer:swap_ema() forms.swap(self, "ema") end

--- Calls a function with the averages of the weights (ema) in the model, and puts the weights back, also
--- after an error, and with them the running statistics of batch norms: as with_eval.
---@param fn function
---@return any ... what it returns
function Optimizer:with_ema(fn, ...) return forms.averaged(self, "ema", fn, ...) end

--- Exchanges the weights and their averages, where the class keeps some (see optim.swa): as swap_ema.
function Optimizer:swap_swa() forms.swap(self, "swa") end

--- Calls a function with the averages of the weights that optim.swa keeps in the model, and puts the weights back, also after an
--- error, and with them the running statistics of batch norms: inside, optim.update_bn computes those of the averages.
---@param fn function
---@return any ... what it returns
function Optimizer:with_swa(fn, ...) return forms.averaged(self, "swa", fn, ...) end

-- The norm of the gradients that are present, as the next step would measure it; nil where backward uses them up.
local function present_norm(self, tensors)
  if self._updater then return nil end
  return (core.norm(tensors, self._clip.infinity)) / (self._clip.grad_scale or 1)
end

-- What happened in one group.
local function group_stats(self, group)
  local stats = { state_bytes = group:bytes(), updates = group.updates, lr = group.class.hyper.lr and group:read "lr" }
  stats.grad_norm = present_norm(self, group.params)
  local numbers = group.numbers
  if numbers.weight_square and group.updates > 0 then
    stats.update_ratio = math.sqrt(numbers.update_square / numbers.weight_square)
  end
  return stats
end

--- What happened: `updates`, the number of committed steps; `skipped`, that of steps that were not made because
--- of gradients that are not finite; `grad_norm`, the norm of all gradients, divided by grad_scale, before clipping (of the last step
--- where it was measured there, else of the gradients that are present; none with in_backward); `state_bytes`; and by name in
--- `groups` the same of each group: `updates`, `grad_norm` (of the gradients that are present), `state_bytes`, `lr`,
--- and with the container's option track_updates `update_ratio`, the norm of the last update over that of the weights.
---@return { updates: integer, skipped: integer, grad_norm: number?, state_bytes: integer, groups: table<string, table> }
function Optimizer:stats()
  local norm, tensors, bytes, groups = self._norm, {}, 0, {}
  for _, group in ipairs(self._groups) do
    table.move(group.params, 1, #group.params, #tensors + 1, tensors)
    bytes = bytes + group:bytes()
    groups[group.name] = group_stats(self, group)
  end
  if not norm then norm = present_norm(self, tensors) end
  return { updates = self._clock.updates, skipped = self._skipped, grad_norm = norm, state_bytes = bytes, groups = groups }
end

--- Every parameter with its group and class, the hyperparameters of each group, totals and the bytes of state, as
--- text. Nothing is changed: it can be asked before the first step.
---@return string
function Optimizer:plan() return overview.plan(self) end

--- Where one parameter belongs and why: which groups match it, which took it, and where each hyperparameter comes from.
---@param name string full name
---@return string
function Optimizer:explain(name) return overview.explain(self, name) end

--- The curves of hyperparameters that schedules move, for the updates to come, as text or, with `path`, as SVG.
---@param opts? { steps?: integer, width?: integer, height?: integer, path?: string }
---@return string
function Optimizer:preview(opts) return overview.preview(self, opts) end

--- Everything that is needed to go on: a flat table by name. Tensors share memory with the optimizer.
---@return table<string, any>
function Optimizer:state_dict()
  phase.check(self, "state_dict")
  backward.refuse_open(self, "state_dict")
  return statedict.save(self)
end

--- Loads what state_dict gave: by name, whatever the order. Differences are listed in one error, and then
--- nothing is loaded. With strict = false names may be missing, whose values and states stay or begin anew, or unexpected.
---@param state table<string, any>
---@param opts? { strict?: boolean }
---@return { missing: string[], unexpected: string[] }
function Optimizer:load_state_dict(state, opts)
  phase.check(self, "load_state_dict")
  return statedict.load(self, state, opts)
end

-- The first half of loading: what is wrong with a state, in words, by kind, and what loads it.
function Optimizer:_prepare(state, strict)
  phase.check(self, "load_state_dict")
  local found, commit = statedict.prepare(self, state)
  return statedict.describe(self._name, found, strict), found, commit
end

--- The text of the programs that the rule of its first group compiles to, after `step - 1` updates.
---@param step integer
---@return string
function Optimizer:_program(step)
  local group, names, text = self._groups[1], { "p", "g" }, nil
  group:stage(0)
  group.handle:restore(1, step - 1, {})
  for k, slot in ipairs(group.of_shape[1]) do names[k + 2] = slot.name end
  core.transact(function()
    group:trace()
    text = core.program(1, names)
  end)
  return text
end

function Optimizer:__tostring()
  local lines = { self._name .. " (" }
  for i = 1, #self.groups do lines[#lines + 1] = "  " .. tostring(self.groups[i]):gsub("\n", "\n  ") end
  lines[#lines + 1] = ")"
  return table.concat(lines, "\n")
end

--- Whether a value is an optimizer, of whatever class.
---@param value any
---@return boolean
function Optimizer._is(value) return type(value) == "table" and value._groups ~= nil end

colon.watch(Optimizer, Optimizer._is, "optimizer", "step")

return Optimizer
