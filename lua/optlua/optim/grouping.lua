--- grouping: the groups that a script writes for a container, and which parameters each takes.
local options = require "optlua.options"
local classes = require "optlua.optim.classes"
local Group = require "optlua.optim.group"
local match = require "optlua.optim.match"
local params = require "optlua.optim.params"
local wrapper = require "optlua.optim.wrapper"

local grouping = {}

--- Says how groups have schedules of their own, where one stands in a group.
---@param name string of a group
---@return string
function grouping.no_schedule(name)
  return ("lr_scheduler: no schedule stands in a group: optim.lr_scheduler(optimizers, { %s = schedule, … }), which a spec's "
    .. "build_lr_schedulers returns, gives groups schedules of their own"):format(name:find "^%a[%w_]*$" and name or ("[%q]"):format(name))
end

local own_fields = { class = true, expect = true, match = true, name = true, optional = true }

local function read_expect(expect)
  local count = type(expect) == "number" and math.tointeger(expect) or nil
  if expect ~= nil and not count then return nil, ("expect: a count expected, got %s"):format(tostring(expect)) end
  return count
end

local function read_name(given, i, problems)
  local fallback = "group" .. i
  if given == nil then return fallback end
  local problem = Group.check_name(given, fallback)
  problems[#problems + 1] = problem
  return problem and fallback or given
end

-- One group of the script, read: { name, class, test, entries, rest }; problems are added to the list.
local function read_group(given, i, context, problems)
  if type(given) ~= "table" then
    problems[#problems + 1] = ("group %d is no table"):format(i)
    return nil
  end
  local group = { name = read_name(given.name, i, problems), entries = {}, rest = {}, origin = {}, given = given }
  local function complain(problem)
    if problem then problems[#problems + 1] = ("group '%s': %s"):format(group.name, problem) end
  end
  local problem
  group.test, problem = match.compile(given.match, context.roles)
  complain(problem)
  if given.class == nil and context.defaults.class then
    group.class = context.defaults.class
  else
    group.class, problem = classes.resolve(given.class)
    complain(problem)
  end
  if given.optional ~= nil and type(given.optional) ~= "boolean" then
    complain(("optional: a boolean expected, got a %s"):format(type(given.optional)))
  end
  group.expect, problem = read_expect(given.expect)
  complain(problem)
  for key, value in pairs(given) do
    if context.settings[key] and not Group.settings[key] then
      complain(("'%s' is an option of the container, not of a group%s"):format(key,
        key == "max_norm" and ", whose own limit is max_group_norm" or ""))
    elseif key == "lr_scheduler" then
      complain(grouping.no_schedule(group.name))
    elseif not own_fields[key] then
      group.rest[key], group.origin[key] = value, "the group"
    end
  end
  return group
end

-- Gives each parameter to the first group that matches it.
local function distribute(list, groups, problems)
  for _, entry in ipairs(list) do
    local taken
    for _, group in ipairs(groups) do
      if group.test and group.test(entry[1], entry[2], entry[3]) then
        taken = group
        break
      end
    end
    if taken then
      table.insert(taken.entries, entry)
    else
      problems[#problems + 1] = ("parameter '%s' matches no group"):format(entry[1])
    end
  end
end

local function check_count(group, list, problems)
  local count = #group.entries
  if group.expect and group.expect ~= count then
    local names = {}
    for i, entry in ipairs(group.entries) do names[i] = entry[1] end
    problems[#problems + 1] = ("group '%s': expect = %d, but it takes %d: %s"):format(group.name, group.expect, count,
      count > 0 and table.concat(names, ", ") or "none")
  elseif count == 0 and group.test and not group.expect and not group.given.optional then
    local why = match.unknown_type(group.given.match, list)
    problems[#problems + 1] = ("group '%s' matches no parameter, or only such that an earlier group takes%s"):format(group.name,
      why and "; " .. why or "")
  end
end

-- The roles that parameters can have: those that every layer knows, and those that layers of the model declare.
local function roles_of(list)
  local roles = { bias = true, embedding = true, norm = true, weight = true }
  for _, entry in ipairs(list) do roles[params.role(entry[1], entry[2], entry[3])] = true end
  return roles
end

--- Of the hyperparameters that groups take where they leave them out, those of a group of a class: all where the defaults are for
--- its class, none where they are for another, else those that it knows.
---@param class optlua.optim.Class|optlua.optim.Wrapper
---@param defaults { class?: optlua.optim.Class, hypers: table }
---@return table<string, any>
function grouping.inherited(class, defaults)
  local hypers = {}
  if defaults.class and class ~= defaults.class then return hypers end
  for key, value in pairs(defaults.hypers) do
    if defaults.class or wrapper.is(class) or class.hyper[key] then hypers[key] = value end
  end
  return hypers
end

-- Gives a group what it leaves out: the defaults of its class.
local function inherit(group, defaults, used)
  for key, value in pairs(group.class and grouping.inherited(group.class, defaults) or {}) do
    used[key] = true
    if group.rest[key] == nil then group.rest[key], group.origin[key] = value, "the defaults" end
  end
end

--- Says that no group takes a value, since each has another class than the one that the value is for.
---@param name string
---@param class optlua.optim.Class
---@param others (optlua.optim.Class|optlua.optim.Wrapper)[] of the groups
---@return string
function grouping.untaken(name, class, others)
  local names = {}
  for _, other in ipairs(others) do names[other.name] = true end
  return ("%s: no group takes it: it is for groups of the class %s, and each has another (%s)"):format(name, class.name,
    table.concat(options.names(names), ", "))
end

-- Defaults that hold for no group: a slip of the pen, most likely. What groups take whose class is wrong is not known.
local function check_defaults(defaults, used, groups, legal, problems)
  local others = {}
  for _, group in ipairs(groups) do others[#others + 1] = group.class end
  if #others == 0 then return end
  for _, class in ipairs { defaults.class or others[1], table.unpack(others) } do
    for key in pairs(class.hyper) do legal[key] = true end
  end
  for _, key in ipairs(options.names(defaults.hypers)) do
    if not used[key] and not legal[key] then
      problems[#problems + 1] = options.unknown("option", key, options.names(legal))
    elseif not used[key] and #others == #groups then
      problems[#problems + 1] = grouping.untaken(key, defaults.class, others)
    end
  end
end

--- Reads the groups of a script and gives each parameter to the first that matches it.
---@param given table[] groups as the script has them
---@param list table[] all parameters, { name, tensor, module } each
---@param context { defaults: { class?: any, hypers: table }, settings: table }
---@param problems string[] what is wrong is added
---@return table[] plans for Group.new, or { built = … } of wrappers
---@return table[] tests { name, test } of each group, in order
function grouping.plan(given, list, context, problems)
  local groups, plans, tests, used, legal = {}, {}, {}, {}, {}
  context.roles = roles_of(list)
  for i, one in ipairs(given) do groups[#groups + 1] = read_group(one, i, context, problems) end
  distribute(list, groups, problems)
  for key in pairs(context.settings) do legal[key] = true end
  for i, group in ipairs(groups) do
    check_count(group, list, problems)
    inherit(group, context.defaults, used)
    tests[i] = { name = group.name, test = group.test, match = group.given.match }
    if group.class then
      local plan, wrong = Group.plan(group.class, group.name, group.entries, group.rest)
      plan.origin = group.origin
      plans[#plans + 1] = plan
      table.move(wrong, 1, #wrong, #problems + 1, problems)
    end
  end
  check_defaults(context.defaults, used, groups, legal, problems)
  return plans, tests
end

return grouping
