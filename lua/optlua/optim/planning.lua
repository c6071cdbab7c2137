--- planning: what a class is handed as parameters and hyperparameters, read and checked, before an optimizer is made of it.
local options = require "optlua.options"
local Group = require "optlua.optim.group"
local params = require "optlua.optim.params"

local planning = {}

-- Takes the options of a container away from hyperparameters; says of each where it belongs.
local function refuse_options(class, title, rest)
  local settings, problems = require("optlua.optim.container").settings, {}
  for _, key in ipairs(options.names(settings)) do
    if rest[key] ~= nil and not Group.settings[key] and not class.hyper[key] then
      rest[key] = nil
      problems[#problems + 1] = ("%s: '%s' is an option of the container: optim.container(model, %q, { %s = … })"):format(title, key,
        class.name, key)
    end
  end
  return problems
end

--- A table { name =, params =, <hyperparameters> } as a plan (see Group.plan); defaults stand in for what it leaves out.
---@param class optlua.optim.Class
---@param given table
---@param defaults table<string, any>
---@param fallback string its name where it has none
---@param first integer number of its first parameter among all
---@return table? plan
---@return string[] problems
function planning.group(class, given, defaults, fallback, first)
  local name, rest = given.name, {}
  if name == nil then name = fallback end
  local wrong = Group.check_name(name, fallback)
  if wrong then return nil, { wrong } end
  local entries, problem = params.list(given.params, first)
  if problem then return nil, { ("group '%s': %s"):format(name, problem) } end
  for key, value in pairs(defaults) do rest[key] = value end
  for key, value in pairs(given) do
    if key ~= "name" and key ~= "params" then rest[key] = value end
  end
  local problems = refuse_options(class, ("group '%s'"):format(name), rest)
  local plan, others = Group.plan(class, name, entries, rest)
  return plan, table.move(others, 1, #others, #problems + 1, problems)
end

--- Whether a value is such a table.
---@param value any
---@return boolean
function planning.is_group(value) return type(value) == "table" and value.params ~= nil end

-- The groups that a script hands to a class.
local function read_groups(given)
  if type(given) == "table" and not params.is_module(given) and planning.is_group(given[1]) then return given end
  return { { name = "default", params = given } }
end

--- The plans of all groups that a class is handed.
---@param class optlua.optim.Class
---@param given any parameters, or a list of groups
---@param defaults table<string, any>
---@return table[] list
---@return string[] problems
function planning.all(class, given, defaults)
  local list, problems, first, groups = {}, {}, 1, read_groups(given)
  local hole = options.hole(groups)
  if hole then return list, { ("item %d of the groups is nil"):format(hole) } end
  for i, one in ipairs(groups) do
    if not planning.is_group(one) then return list, { ("item %d is no group { params = … }, but the first is"):format(i) } end
    local plan, wrong = planning.group(class, one, defaults, "group" .. i, first)
    list[#list + 1] = plan
    table.move(wrong, 1, #wrong, #problems + 1, problems)
    first = first + (plan and #plan.entries or 0)
  end
  return list, problems
end

return planning
