--- whole: numbers of a container as a whole, max_norm and grad_scale: fields that can be read and set, and moved by schedules,
--- as hyperparameters of groups are.
local options = require "optlua.options"
local blame = require "optlua.blame"
local Group = require "optlua.optim.group"

---@class optlua.optim.Whole
---@field values table<string, any> what the next step uses
local Whole = { name = "container", place = "the container" }
Whole.__index = Whole
for _, method in ipairs { "attach", "move", "note_schedules", "read", "value_at" } do Whole[method] = Group[method] end

--- The descriptions of the numbers.
---@type table<string, optlua.Option>
Whole.schema = {
  grad_scale = { default = 1, above = 0, below = math.huge, doc = "what the loss was multiplied with; gradients are divided by it" },
  max_norm = { default = math.huge, min = 0, doc = "gradients with a larger norm are scaled down to it" },
}

--- Makes the numbers of a container. What is in `values` changes with them.
---@param name string of the container
---@param clock { updates: integer }
---@param values table<string, any>
---@return optlua.optim.Whole
function Whole.new(name, clock, values)
  local self = setmetatable({ clock = clock, values = values, title = name, label = name }, Whole)
  self.class = { name = name, hyper = Whole.schema, hyper_names = options.names(Whole.schema) }
  self.schedules, self.scheduled, self.used, self.assigned, self.last = {}, {}, {}, {}, "none"
  self.base = { grad_scale = values.grad_scale, max_norm = values.max_norm }
  self.refused = {} -- by name: why it can be none
  return self
end

--- Checks a number; returns what is wrong. nil is none.
---@param name string
---@param value any
---@return string? problem
function Whole:check(name, value)
  if value == nil then return self.scheduled[name] and ("%s: none, but a schedule moves it"):format(name) or nil end
  if self.refused[name] then return ("%s: %s"):format(name, self.refused[name]) end
  local _, problem = options.value(name, value, Whole.schema[name])
  return problem
end

--- Lets a number be refused from now on; returns what is wrong where there is one.
---@param name string
---@param why string
---@return string? problem
function Whole:refuse(name, why)
  self.refused[name] = why
  return (self.base[name] or self.scheduled[name]) and ("%s: %s"):format(name, why) or nil
end

--- Sets a number, or with nil takes it away.
---@param name string
---@param value number?
function Whole:assign(name, value)
  local problem = self:check(name, value)
  if problem then blame(("%s: %s"):format(self.title, problem)) end
  self.base[name] = value
  if self.scheduled[name] then self.assigned[name] = true else self.values[name] = value end
end

--- Raises when a schedule gives nothing legal for the next update.
---@param schedule table
function Whole:try(schedule)
  local name = schedule.name
  if self.refused[name] then blame(("%s: %s: %s"):format(schedule.what, name, self.refused[name])) end
  if self.base[name] == nil and not schedule.absolute then
    blame(("%s: %s has no base for a factor: give the container %s, or make the schedule with schedule.value"):format(
      schedule.what, name, name))
  end
  Group.try(self, schedule)
end

--- Takes values that were loaded, those that were saved.
---@param base table<string, number>
---@param updates integer of the clock
function Whole:load(base, updates)
  for name, value in pairs(base) do self:assign(name, value) end
  self.assigned, self.last = {}, updates > 0 and "loaded" or "none"
end

return Whole
