--- container: one optimizer over the parts of a model, with groups of parameters and several classes.
--
-- It is an optimizer: same methods, accepted wherever one is. `optimizers` holds one optimizer a class,
-- `model_parts` the parts.
local options = require "optlua.options"
local blame = require "optlua.blame"
local classes = require "optlua.optim.classes"
local Group = require "optlua.optim.group"
local match = require "optlua.optim.match"
local Optimizer = require "optlua.optim.optimizer"
local params = require "optlua.optim.params"

---@class optlua.optim.Container: optlua.optim.Optimizer
---@field optimizers optlua.optim.Optimizer[] one a class, in the order of their first groups
---@field model_parts table[]
local Container = {}
Container.__index = Container
Container.__name = "optimizer container"
Container.__tostring = Optimizer.__tostring

local settings = {
  max_norm = { required = false, type = "number", min = 0, doc = "gradients with a larger norm are scaled down to it" },
  norm_type = { default = 2, choices = { 2, math.huge }, doc = "2, or math.huge for the largest absolute value" },
  nonfinite = { default = "off", choices = { "off", "error" }, doc = "what happens when a gradient is not finite" },
}

-- Parts --------------------------------------------------------------------------------------------------

local function read_part(item, i)
  if params.is_module(item) then return { module = item } end
  if type(item) == "table" and type(item[1]) == "string" and params.is_module(item[2]) then
    return { name = item[1], module = item[2] }
  end
  return nil, ("part %d of the model is no module and no pair { name, module }"):format(i)
end

local function read_parts(given)
  if params.is_module(given) then return { { module = given } } end
  if type(given) ~= "table" or #given == 0 then
    return nil, "a module, a list of modules, or a list of { name, module } expected"
  end
  local parts = {}
  for i, item in ipairs(given) do
    local part, problem = read_part(item, i)
    if problem then return nil, problem end
    parts[i] = part
  end
  return parts
end

-- All parameters of all parts; one that occurs again, tied, keeps its first name.
local function list_parameters(parts)
  local list, seen, part_of = {}, {}, {}
  for i, part in ipairs(parts) do
    for name, tensor, module in part.module:named_parameters() do
      if part.name then name = part.name .. "." .. name end
      if not seen[tensor] then
        if part_of[name] then
          return nil, ("parts %d and %d both have a parameter '%s'; give the parts names: { { \"name\", part }, … }")
            :format(part_of[name], i, name)
        end
        seen[tensor], part_of[name] = true, i
        list[#list + 1] = { name, tensor, module }
      end
    end
  end
  return list
end

-- Groups -------------------------------------------------------------------------------------------------

local own_fields = { class = true, expect = true, match = true, name = true }

local function read_expect(expect)
  local count = type(expect) == "number" and math.tointeger(expect) or nil
  if expect ~= nil and not count then return nil, ("expect: a count expected, got %s"):format(tostring(expect)) end
  return count
end

-- One group of the script, read: { name, class, test, entries, rest }; problems are added to the list.
local function read_group(given, i, roles, problems)
  if type(given) ~= "table" then
    problems[#problems + 1] = ("group %d is no table"):format(i)
    return nil
  end
  local name, group = given.name, { name = "group" .. i, entries = {}, rest = {} }
  if type(name) == "string" and name ~= "" then
    group.name = name
  elseif name ~= nil then
    problems[#problems + 1] = ("the name of %s is a word, not %s"):format(group.name, tostring(name))
  end
  local function complain(problem)
    if problem then problems[#problems + 1] = ("group '%s': %s"):format(group.name, problem) end
  end
  local problem
  group.test, problem = match.compile(given.match, roles)
  complain(problem)
  group.class, problem = classes.resolve(given.class)
  complain(problem)
  group.expect, problem = read_expect(given.expect)
  complain(problem)
  for key, value in pairs(given) do
    if settings[key] then
      complain(("'%s' is an option of the container, not of a group"):format(key))
    elseif not own_fields[key] then
      group.rest[key] = value
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

local function check_counts(group, problems)
  local count = #group.entries
  if group.expect and group.expect ~= count then
    local names = {}
    for i, entry in ipairs(group.entries) do names[i] = entry[1] end
    problems[#problems + 1] = ("group '%s': expect = %d, but it takes %d: %s"):format(group.name, group.expect, count,
      count > 0 and table.concat(names, ", ") or "none")
  elseif count == 0 and group.test and not group.expect then
    problems[#problems + 1] = ("group '%s' matches no parameter, or only such that an earlier group takes"):format(group.name)
  end
end

-- The roles that parameters can have: those that every layer knows, and those that layers of the model declare.
local function roles_of(list)
  local roles = { bias = true, embedding = true, norm = true, weight = true }
  for _, entry in ipairs(list) do roles[params.role(entry[1], entry[2], entry[3])] = true end
  return roles
end

local function plan_groups(given, list, problems)
  local groups, plans, roles = {}, {}, roles_of(list)
  for i, one in ipairs(given) do groups[#groups + 1] = read_group(one, i, roles, problems) end
  distribute(list, groups, problems)
  for _, group in ipairs(groups) do
    check_counts(group, problems)
    if group.class then
      local plan, wrong = Group.plan(group.class, group.name, group.entries, group.rest)
      plans[#plans + 1] = plan
      table.move(wrong, 1, #wrong, #problems + 1, problems)
    end
  end
  return plans
end

-- Making -------------------------------------------------------------------------------------------------

-- One optimizer a class, over its groups; they share the container's clock.
local function add_optimizers(self, groups)
  for _, group in ipairs(groups) do
    local inner = self._inner[group.class]
    if not inner then
      inner = setmetatable({ class = group.class, _defaults = {} }, Optimizer)
      inner:_init(group.class.name)
      inner._clock = self._clock
      self._inner[group.class] = inner
      table.insert(self.optimizers, inner)
    end
    table.insert(inner._groups, group)
    inner._show(group)
  end
end

-- Notes the options; returns what is wrong with them.
local function set_options(self, given)
  local checked, problems = options.collect(given, settings)
  self._clip = {
    measure = checked.max_norm ~= nil or checked.nonfinite == "error",
    infinity = checked.norm_type == math.huge,
    max_norm = checked.max_norm,
  }
  return problems
end

-- The keyword arguments of a homogeneous container: the class's, and the container's options.
local function split(kwargs)
  local hypers, opts = {}, {}
  if kwargs ~= nil and type(kwargs) ~= "table" then
    blame("optim.container: the arguments of the class are a table, not a " .. type(kwargs))
  end
  for key, value in pairs(kwargs or {}) do
    if settings[key] then opts[key] = value else hypers[key] = value end
  end
  return hypers, opts
end

local function begin(class, parts)
  local self = setmetatable({ optimizers = {}, model_parts = {}, _inner = {} }, class)
  Optimizer._init(self, "optim.container")
  local read, problem = read_parts(parts)
  local list
  if read then list, problem = list_parameters(read) end
  if problem then blame("optim.container: " .. problem) end
  for i, part in ipairs(read) do self.model_parts[i] = part.module end
  return self, list
end

local function finish(self, plans, problems)
  self:_check(plans, problems)
  add_optimizers(self, self:_adopt(plans))
  return self
end

local function of_class(self, list, class, kwargs)
  local hypers, opts = split(kwargs)
  local problems = set_options(self, opts)
  self.class, self._defaults = class, hypers
  local plan, wrong = Group.plan(class, "default", list, hypers)
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
end

local function of_groups(self, list, groups, opts)
  check_list(groups)
  local problems = set_options(self, opts)
  self._defaults = {}
  local plans = plan_groups(groups, list, problems)
  return finish(self, plans, problems)
end

--- Makes an optimizer for a model, with a class of optimizers for all of it, or groups of parameters that
--- are updated differently. A container is an optimizer and has all its methods; `optimizers` holds one
--- optimizer for each class, `model_parts` the modules.
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
---   class: an optimizer class or its name
---   match: which parameters the group takes; each goes to the first group that matches it
---   expect: how many parameters it takes, or it is an error; when left out, only none is one
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
---   max_norm: gradients whose norm together is larger are scaled down to it, as they are read (they are
---    not written); default none
---   norm_type: 2, or math.huge for the largest absolute value; default 2
---   nonfinite: "off", or "error" to raise when a gradient is not finite, as max_norm does too; default "off"
---
--- Parameters that are frozen (requires_grad is false) are in their group, but are not updated until they are
--- woken. Parts of a model that have names, { { "encoder", a }, { "head", b } }, prefix their parameters:
--- "head.weight". A tensor that occurs twice (tied) is one parameter, with its first name. Everything that is
--- wrong — a parameter without a group, a group without one, a misspelt word — is said in one error.
---@param parts table a module, a list of modules, or a list of { name, module }
---@param what any a class, its name, or a list of groups
---@param opts? table
---@return optlua.optim.Container
function Container.new(self, parts, what, opts, ...)
  if select("#", ...) > 0 then
    blame "optim.container: at most three arguments; the container's options stand in the last one, beside the class's"
  end
  local new, list = begin(self, parts)
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
  if type(given) ~= "table" or given.params == nil then
    blame "optim.container: add_group: a table with params expected"
  end
  local class, problem = self.class
  if given.class ~= nil or not class then
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
  local plan, problems = self:_plan(class, rest)
  finish(self, { plan }, problems)
end

--- Makes a kind of containers with methods of its own: called like `optim.container`.
---@param methods table<string, function>
---@return table
function Container:extend(methods)
  local class = {}
  for key, value in pairs(methods or {}) do class[key] = value end
  class.__index, class.__name, class.__tostring = class, Container.__name, Container.__tostring
  return setmetatable(class, { __index = self, __call = Container.new })
end

return Container
