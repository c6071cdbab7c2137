--- group: parameters that are updated with the same hyperparameters: base values, schedules, the
--- numbers of the group, and its part of a step.
local core = require("optlua.core").hidden.optim
local options = require "optlua.options"
local blame = require "optlua.blame"
local clipping = require "optlua.optim.clipping"
local extras = require "optlua.optim.extras"
local hyper = require "optlua.optim.hyper"
local memory = require "optlua.optim.memory"
local slots = require "optlua.optim.slots"
local storage = require "optlua.optim.storage"
local wrapper = require "optlua.optim.wrapper"

local INFINITE = math.huge
local collect, trace = core.collect, core.trace
local initial_seed = require("optlua.core").initial_seed
local uninterrupted = require("optlua.core").hidden.uninterrupted

---@class optlua.optim.Group
---@field name string
---@field class optlua.optim.Class
---@field names string[] of its parameters
---@field params optlua.Tensor[]
local Group = {}
Group.__index = Group

-- What `before` and `after` see: numbers that can be set, and nothing else; and what `update` sees.
local function face_numbers(self)
  local names = self.class.number_names
  local function refuse(_, name) blame(options.unknown("number of the group", name, names)) end
  self.staged = setmetatable({}, { __index = refuse })
  self.writable = setmetatable({}, {
    __index = self.staged,
    __newindex = function(_, name, value)
      if self.numbers[name] == nil then refuse(nil, name) end
      if type(value) ~= "number" or value ~= value then
        blame(("group.%s: a number expected, got %s"):format(name, value ~= value and "NaN" or type(value)))
      end
      self.staged[name] = 1.0 * value
    end,
  })
  self.readable = setmetatable({}, {
    __index = self.staged,
    __newindex = function()
      blame("update runs several times a step: numbers of the group are set in before or after, or by optim.group_add")
    end,
  })
end

local function check_params(class, name, entries)
  local problems = {}
  for _, entry in ipairs(entries) do
    local why = class:refuses(entry[2], entry[1])
    if why then problems[#problems + 1] = ("group '%s': parameter '%s': %s"):format(name, entry[1], why) end
  end
  return problems
end

--- What a group may say of itself besides its hyperparameters.
Group.settings = {
  lr_scale = { required = false, type = "number", min = 0, doc = "multiplies lr" },
  wd_scale = { required = false, type = "number", min = 0, doc = "multiplies weight_decay" },
  unfreeze_at = { required = false, type = "integer", min = 0, doc = "its parameters are frozen for so many updates" },
  state_dtype = storage.settings.state_dtype,
  state_rounding = storage.settings.state_rounding,
}
for name, option in pairs(clipping.settings) do Group.settings[name] = option end

local scaled = { lr_scale = "lr", wd_scale = "weight_decay" }

-- Multiplies what a group scales.
local function scale(class, base, settings)
  for key, name in pairs(scaled) do
    local factor = settings[key]
    if factor and type(base[name]) ~= "number" and class.hyper[name] == nil then
      return ("%s: %s has no %s"):format(key, class.name, name)
    elseif factor and base[name] then
      base[name] = base[name] * factor
    end
  end
end

-- What was given, as hyperparameters and settings.
local function split(given)
  local hypers, settings = {}, {}
  for key, value in pairs(given) do
    if Group.settings[key] then settings[key] = value else hypers[key] = value end
  end
  local checked, problems = options.collect(settings, Group.settings)
  return hypers, checked, problems
end

--- What is wrong with the name of a group.
---@param name any
---@param fallback string what the group is called without one
---@return string? problem
function Group.check_name(name, fallback)
  if type(name) == "string" and name ~= "" and not name:find "%c" then return nil end
  return ("the name of %s is a word, not %s"):format(fallback, type(name) == "string" and ("%q"):format(name) or tostring(name))
end

--- What an optimizer that a wrapper built has and its groups would not take along, as a problem.
---@param name string of the wrapper
---@param optimizer table
---@return string? problem
function Group.left_behind(name, optimizer)
  if not optimizer._groups then return nil end
  local set, lost = optimizer._options or {}, nil
  for _, option in ipairs { "max_norm", "grad_scale", "zero" } do
    if set[option] then lost = "the option " .. option end
  end
  if set.nonfinite and set.nonfinite ~= "off" then lost = "the option nonfinite" end
  if set.in_backward then lost = "the option in_backward" end
  if #optimizer._before + #optimizer._after > 0 then lost = "hooks" end
  return lost and ("%s: what build returned has %s; that belongs to the container around it"):format(name, lost)
end

-- A wrapper is asked for the optimizers of a group.
local function plan_wrapper(class, name, entries, given)
  local built, wrong = wrapper.build(class, entries, given)
  for _, optimizer in ipairs(built) do wrong[#wrong + 1] = Group.left_behind(class.name, optimizer) end
  local problems = {}
  for i, problem in ipairs(wrong) do problems[i] = ("group '%s': %s"):format(name, problem) end
  return { name = name, entries = entries, built = built }, problems
end

-- A step of its own computes with gradients and states as they are.
local function refuse_settings(class, settings, problems)
  for _, name in ipairs(class.step and options.names(settings) or {}) do
    if name == "state_dtype" or name == "state_rounding" or clipping.schema[name] then
      problems[#problems + 1] = ("%s: %s has a step of its own, which takes gradients and states as they are"):format(name, class.name)
    end
  end
end

local function says_of_states(settings)
  return type(settings.state_dtype) == "table" or type(settings.state_rounding) == "table"
end

-- The states that a class may have for the parameters of a plan.
local function states_of(class, entries, base)
  local shapes = {}
  for i, entry in ipairs(entries) do shapes[i] = entry[2].shape end
  return slots.all(class, shapes, base)
end

--- Checks what a group is made of, without making it.
---@param class optlua.optim.Class|optlua.optim.Wrapper
---@param name string
---@param entries table[] { name, tensor, module } each
---@param given table<string, any> hyperparameters, the others get their defaults; settings
---@return table plan for `new`; of a wrapper, with the optimizers that it `built`
---@return string[] problems
function Group.plan(class, name, entries, given)
  if wrapper.is(class) then return plan_wrapper(class, name, entries, given) end
  local problems = check_params(class, name, entries)
  local hypers, settings, wrong = split(given)
  local base, wrong_hypers = hyper.values(hypers, class.hyper, options.names(clipping.schema))
  table.move(wrong_hypers, 1, #wrong_hypers, #wrong + 1, wrong)
  wrong[#wrong + 1] = scale(class, base, settings)
  if #wrong == 0 then wrong[1] = class:problem(base) end
  refuse_settings(class, settings, wrong)
  local known = #wrong == 0 and #entries > 0 and says_of_states(settings) and states_of(class, entries, base) or nil
  local wrong_words = storage.check(settings, known)
  table.move(wrong_words, 1, #wrong_words, #wrong + 1, wrong)
  for _, problem in ipairs(wrong) do
    problems[#problems + 1] = ("group '%s': %s"):format(name, problem)
  end
  return { class = class, name = name, entries = entries, base = base, settings = settings, given = given }, problems
end

--- The states that the group's class may have, or that a plan's may, by name.
---@param plan table or a group
---@return table<string, table>
function Group.states(plan)
  if plan.shapes then return slots.all(plan.class, plan.shapes, plan.values) end
  return states_of(plan.class, plan.entries, plan.base)
end

--- The group again, of another class, with what its base has besides, and settings. It has made no update.
---@param class optlua.optim.Class
---@param more table<string, any> hyperparameters
---@param settings table<string, any> where the group has none
---@return optlua.optim.Group
function Group:remade(class, more, settings)
  local plan = { class = class, name = self.name, base = {}, settings = {}, entries = {}, given = self.given, origin = self.origin }
  for name, value in pairs(self.base) do plan.base[name] = value end
  for name, value in pairs(more) do plan.base[name] = value end
  for name, value in pairs(settings) do plan.settings[name] = value end
  for name in pairs(Group.settings) do
    if self[name] ~= nil then plan.settings[name] = self[name] end
  end
  for i, name in ipairs(self.names) do plan.entries[i] = { name, self.params[i], self.modules[i] or nil } end
  local group = Group.new(plan, self.clock)
  for _, schedule in ipairs(self.schedules) do group:attach(schedule) end
  return group
end

-- Tells the machine what the rules of the group are traced with.
local function lend_context(self)
  local class = self.class
  self.handle:set_context(class.cache, self.h, self.values, self.readable, class.number_slots, self.label)
end

--- Gives a group another name and the clock of its new optimizer.
---@param name string
---@param clock { updates: integer }
function Group:join(name, clock)
  self.name, self.clock = name, clock
  self.title = ("%s: group '%s'"):format(self.class.name, name) -- begins a message
  self.label = ("%s, group '%s'"):format(self.class.name, name) -- of a step, whose place goes on
  if self.handle then lend_context(self) end
end

-- Frozen until its update has come.
local function freeze(self)
  if self.unfreeze_at and self.clock.updates < self.unfreeze_at then
    for _, tensor in ipairs(self.params) do tensor.requires_grad = false end
    self.sleeps = true
  end
end

--- Wakes the parameters of a group whose update has come; puts them to sleep again where it is to come again.
function Group:wake()
  if not self.sleeps then freeze(self) end
  if not self.sleeps or self.clock.updates < self.unfreeze_at then return end
  for _, tensor in ipairs(self.params) do tensor.requires_grad = true end
  self.sleeps = false
end

--- Sets the seed of stochastic rounding.
---@param seed integer
function Group:set_seed(seed)
  self.seed = seed
  self.handle:set_seed(seed)
end

--- Makes a group. Its clock is a table { updates = n }, shared by all groups that step together.
---@param plan table
---@param clock { updates: integer }
---@return optlua.optim.Group
function Group.new(plan, clock)
  local class = extras.clipped(plan.class, plan.settings)
  local self = setmetatable({ class = class, unclipped = plan.class, base = plan.base }, Group)
  self:join(plan.name, clock)
  self.given, self.origin = plan.given, plan.origin or {}
  for name, value in pairs(plan.settings) do self[name] = value end
  for name in pairs(clipping.schema) do
    if class.hyper[name] and self.base[name] == nil then self.base[name] = self[name] or class.hyper[name].default end
  end
  self.names, self.params, self.modules = {}, {}, {}
  for i, entry in ipairs(plan.entries) do
    self.names[i], self.params[i], self.modules[i] = entry[1], entry[2], entry[3] or false
  end
  self.values, self.h = {}, nil
  for name, value in pairs(self.base) do self.values[name] = value end
  self.values.step = 0
  self.values, self.h = hyper.face(self.values, class.hyper_names)
  self.schedules = {} -- a list of { name =, at =, absolute = }
  self.scheduled = {} -- the same by name
  self.used = {} -- of scheduled ones: what the last update used
  self.assigned = {} -- of scheduled ones: whether the base was set since
  self.last = "none" -- its last update: "none", "loaded" (before it was saved), "used"
  self.updates = 0 -- of the group
  self.stale = true -- whether the states must be asked for
  self.sleeps = false -- whether its parameters are frozen until its update comes
  self.mode = "train" -- the form of the parameters, of classes that have two
  self.kept = {} -- while it is that for evaluation: parameters as they were in training, by number
  self.numbers = {}
  for name, value in pairs(class.numbers) do self.numbers[name] = value end
  self.has_numbers = next(class.numbers) ~= nil or class.before ~= nil or class.after ~= nil
  if self.has_numbers then face_numbers(self) end
  if class.step then self.memory, self.state_dtype, self.state_rounding = {}, nil, nil end
  self.handle = core.group(self.names, self.params)
  lend_context(self)
  self.has_limit = class.hyper.max_group_norm ~= nil
  if self.has_limit then self.handle:set_max_norm(self.values.max_group_norm) end
  self:set_seed(initial_seed())
  freeze(self)
  self.shapes, self.shape_of = self.handle:shapes()
  return self
end

--- Bytes of the states that exist.
---@return integer
function Group:bytes() return self.handle:bytes() + memory.bytes(self) end

-- Hyperparameters -----------------------------------------------------------------------------------

-- Gives a hyperparameter the value that the next update uses. States that depend on it must be asked for again; the machine
-- knows the limit of the norm.
local function set_value(self, name, value)
  local read = self.reads and self.reads[name]
  if read ~= nil and read ~= value then self.stale = true end
  if name == "max_group_norm" then self.handle:set_max_norm(value) end
  self.values[name] = value
end

-- Whether a number is certainly a legal value of what is no list: what options.value finds at greater length.
local function is_inside(option, x)
  return x < INFINITE and x > -INFINITE and not (option.integer or option.type or option.choices)
    and not (option.min and x < option.min) and not (option.max and x > option.max)
    and not (option.above and x <= option.above) and not (option.below and x >= option.below)
end

-- A list hyperparameter with another element.
local function with_element(list, element, value)
  local copy = hyper.thaw(list)
  copy[element] = value
  return copy
end

-- The value of a scheduled hyperparameter for an update; nil and a message when it is not legal.
local function evaluate(self, schedule, updates)
  local whole, element = self.base[schedule.name], schedule.element
  local base = element and whole[element] or whole
  local result = schedule:at(updates, base)
  if type(result) ~= "number" or result ~= result then
    return nil, ("the schedule gives %s; a number was expected"):format(
      type(result) == "number" and "NaN" or type(result) == "string" and ("%q"):format(result) or type(result))
  end
  if not schedule.absolute then
    if result < 0 or result == math.huge then return nil, ("the schedule gives the factor %s"):format(result) end
    result = base * result
  end
  local option = self.class.hyper[schedule.name]
  if element then return hyper.value(schedule.name, with_element(whole, element, result), option) end
  if is_inside(option, result) then return result end
  return hyper.value(schedule.name, result, option)
end

local function evaluate_or_raise(self, schedule, updates)
  local value, problem = evaluate(self, schedule, updates)
  if problem then
    blame(("%s: %s, step %d: %s"):format(schedule.what, self.label, updates, problem))
  end
  return value
end

--- The value of a scheduled hyperparameter at some count of updates; raises where the schedule gives nothing
--- legal.
---@param name string
---@param updates integer
---@return any
function Group:value_at(name, updates) return evaluate_or_raise(self, self.scheduled[name], updates) end

-- What an update used or will use; a schedule that gives nothing legal raises.
local function value_of(self, name)
  local schedule, updates = self.scheduled[name], self.clock.updates
  if not schedule then return self.base[name] end
  if self.assigned[name] or self.last == "none" then return evaluate_or_raise(self, schedule, updates) end
  if self.last == "loaded" then return evaluate_or_raise(self, schedule, updates - 1) end
  return self.used[name]
end

--- The value of a hyperparameter that the last update used; before the first one, and after an
--- assignment, the one that the next will use. Reading never raises: where the schedule gives nothing
--- legal, it is the base, and the step raises.
---@param name string
---@return any
function Group:read(name)
  local legal, value = uninterrupted(pcall, value_of, self, name)
  if legal then return value end
  return self.base[name]
end

--- Checks new values of hyperparameters, each and all together.
---@param given table<string, any>
---@return table<string, any> checked
---@return string? problem
function Group:check(given)
  local class, together, checked = self.class, {}, {}
  for name, value in pairs(self.base) do together[name] = value end
  for name, value in pairs(given) do
    local option, problem = class.hyper[name]
    if not option and Group.settings[name] then
      return checked, name .. " can be set where it was given when the optimizer was made"
    end
    if not option then return checked, options.unknown("hyperparameter", name, class.hyper_names) end
    checked[name], problem = hyper.value(name, value, option)
    if problem then return checked, problem end
    together[name] = checked[name]
  end
  return checked, class:problem(together)
end

--- Sets the base of a hyperparameter to a value that was checked.
---@param name string
---@param checked any
function Group:put(name, checked)
  self.base[name] = checked
  if self.scheduled[name] then self.assigned[name] = true else set_value(self, name, checked) end
end

--- Sets the base of a hyperparameter, checked like at construction.
---@param name string
---@param value any
function Group:assign(name, value)
  local checked, problem = self:check { [name] = value }
  if problem then blame(("%s: %s"):format(self.title, problem)) end
  self:put(name, checked[name])
end

--- Raises when a schedule gives nothing legal for the next update.
---@param schedule { name: string, element?: integer, at: function, absolute: boolean, what: string }
function Group:try(schedule) evaluate_or_raise(self, schedule, self.clock.updates) end

--- Moves a hyperparameter by a schedule from the next update on, in place of the one that did so far.
---@param schedule { name: string, element?: integer, at: function, absolute: boolean, what: string }
function Group:attach(schedule)
  local name = schedule.name
  local old = self.scheduled[name]
  self.scheduled[name] = schedule
  for i, other in ipairs(self.schedules) do
    if other == old then
      self.schedules[i] = schedule
      return
    end
  end
  self.used[name] = self.base[name]
  self.assigned[name] = false
  self.schedules[#self.schedules + 1] = schedule
end

--- Takes values that were loaded.
---@param base table<string, any>
---@param numbers table<string, number>
---@param own integer updates of the group
---@param updates integer updates of the clock
---@param mode string
---@param kept optlua.Tensor[] parameters as they were in training, where they have the form for evaluation
function Group:load(base, numbers, own, updates, mode, kept)
  self.base, self.numbers, self.updates, self.mode = base, numbers, own, mode
  self.kept, self.versions = kept, nil
  self.last = updates > 0 and "loaded" or "none"
  for name, value in pairs(base) do
    set_value(self, name, value)
    self.assigned[name] = false
  end
end

-- A step -----------------------------------------------------------------------------------------------

local function ask_states(self)
  local layouts, of_shape, reads = slots.layouts(self.class, self.shapes, self.values, self.of_shape, self)
  self.handle:layouts(layouts, of_shape)
  self:set_layouts(layouts, of_shape, reads)
end

--- Notes the layouts that the machine was given.
function Group:set_layouts(layouts, of_shape, reads)
  self.of_shape, self.reads, self.stale = {}, reads, false
  for i, place in ipairs(of_shape) do self.of_shape[i] = layouts[place] end
end

--- The layouts of states, by shape: as they are, or as they will be.
---@return table[][]
function Group:layouts()
  if self.of_shape then return self.of_shape end
  local result, layouts, of_shape = {}, slots.layouts(self.class, self.shapes, self.values, nil, self)
  for i, place in ipairs(of_shape) do result[i] = layouts[place] end
  return result
end

--- Evaluates the schedules for an update.
---@param updates integer
function Group:move(updates)
  local schedules = self.schedules
  for i = 1, #schedules do
    local schedule = schedules[i]
    set_value(self, schedule.name, evaluate_or_raise(self, schedule, updates))
  end
end

--- Before an update: evaluates the schedules, and asks for the states where that is needed.
---@param updates integer
function Group:stage(updates)
  if self.schedules[1] then self:move(updates) end
  if self.stale then ask_states(self) end
end

local function note_restless(class)
  class.noted = true
  io.stderr:write(("optlua: the rule of %s is another one at each step, and compiled each time: its operations or "
    .. "their order change; only its numbers should\n"):format(class.name))
end

-- Runs the class's `before` or `after`; the message of an error says where it was.
local function call(self, field, update)
  self.values.step = update
  local ok, problem = pcall(self.class[field], self.writable, self.h)
  if ok then return end
  if type(problem) ~= "string" then error(problem, 0) end
  error(("%s (%s, %s of update %d)"):format(problem, self.label, field, update), 0)
end

-- The numbers of the group at the start of an update.
local function stage_numbers(self)
  for name, value in next, self.numbers do self.staged[name] = value end
  if self.class.before then call(self, "before", self.updates + 1) end
end

--- Runs the rule on symbols for the parameters that have a gradient, or await one; false when there is none.
---@param visit? integer the walk of a backward that will bring the gradients
---@return boolean present
function Group:trace(visit)
  local handle, class = self.handle, self.class
  local present = (visit and core.collect_awaited(handle, visit) or collect(handle)) > 0
  self.present = present
  if not present then return false end
  if self.has_numbers then
    if not self.begun then stage_numbers(self) end
    self:lend_numbers()
  end
  if trace(handle, class.update) and not class.noted then note_restless(class) end
  return true
end

--- Runs a named rule on symbols for the parameters that were updated; false when there is none.
---@param rule function (p, s, h, group)
---@return boolean present
function Group:trace_form(rule)
  for _, schedule in ipairs(self.schedules) do set_value(self, schedule.name, value_of(self, schedule.name)) end
  if self.stale then ask_states(self) end
  if core.collect_updated(self.handle) == 0 then return false end
  for name, value in next, self.numbers do self.staged[name] = value end
  trace(self.handle, rule)
  return true
end

--- Hands the numbers of the group to the machine, for group_add.
function Group:lend_numbers()
  local list = {}
  for i, name in ipairs(self.class.number_names) do list[i] = self.staged[name] end
  self.handle:set_totals(table.unpack(list))
end

--- Notes what the update that was committed took from schedules. Cannot fail.
function Group:note_schedules()
  local schedules, values, used, assigned = self.schedules, self.values, self.used, self.assigned
  for i = 1, #schedules do
    local name = schedules[i].name
    used[name], assigned[name] = values[name], false
  end
end

local function take_numbers(self)
  for name in next, self.numbers do self.numbers[name] = self.staged[name] end
end

-- Takes the numbers of the group as the update has left them.
local function settle(self)
  local class, totals = self.class, { self.handle:totals(#self.class.number_names) }
  for i, name in ipairs(class.number_names) do self.staged[name] = totals[i] end
  take_numbers(self)
end

--- After an update that was committed. Cannot fail.
function Group:commit()
  if self.schedules[1] then self:note_schedules() end
  self.last = "used"
  if not self.present then return end
  self.updates = self.updates + 1
  if self.has_numbers then settle(self) end
end

--- Runs the class's `after`. An error in it is raised when the update has been made; the numbers then are
--- those before `after`.
function Group:conclude()
  if not self.present or not self.class.after then return end
  call(self, "after", self.updates)
  uninterrupted(take_numbers, self)
end

return Group
