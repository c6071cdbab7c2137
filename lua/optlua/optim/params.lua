--- params: what a script hands over as parameters, as lists of { name, tensor, module }.
--
-- Accepted are a module, an iterator (name, tensor, module), a list of tensors, a list of { name,
-- tensor } pairs. Tensors without a name are called param1, param2, … in their order. A table without
-- an order is refused: the same script would name and update parameters in another order each time.
local core = require("optlua.core").hidden.optim
local options = require "optlua.options"
local optlua = require "optlua"

local params = {}

--- Whether a value has the method named_parameters.
---@param value any
---@return boolean
function params.is_module(value)
  return type(value) == "table" and type(value.named_parameters) == "function"
end

--- What a value is, for messages: "module", "optimizer", or its type.
---@param value any
---@return string
function params.kind(value)
  if params.is_module(value) then return "module" end
  return type(value) == "table" and rawget(value, "_groups") and "optimizer" or type(value)
end

local function from_iterator(next_parameter)
  if next_parameter == next then
    return nil, "pairs gives parameters in no order; hand over a list, of tensors or of { name, tensor }"
  end
  local list = {}
  for name, tensor, module in next_parameter do
    if type(name) ~= "string" or not optlua.is_tensor(tensor) then
      return nil, "an iterator gives a name, a tensor and the module that owns it"
    end
    list[#list + 1] = { name, tensor, module }
  end
  return list
end

local function from_item(item, i, number)
  if optlua.is_tensor(item) then return { "param" .. number, item } end
  if type(item) == "table" and type(item[1]) == "string" and optlua.is_tensor(item[2]) then
    return { item[1], item[2], item[3] }
  end
  return nil, ("item %d of the parameters is no tensor and no pair { name, tensor }"):format(i)
end

local function from_list(given, first)
  local list, count, hole = {}, 0, options.hole(given)
  if hole then return nil, ("item %d of the parameters is nil"):format(hole) end
  for _ in pairs(given) do count = count + 1 end
  if count ~= #given then
    return nil, "a table with keys has no order; hand over a list, of tensors or of { name, tensor }"
  end
  for i, item in ipairs(given) do
    local problem
    list[i], problem = from_item(item, i, first + i - 1)
    if problem then return nil, problem end
  end
  return list
end

--- Lists parameters: { name, tensor, module } each.
---@param given any
---@param first integer the number of the first tensor without a name
---@return table[]? list
---@return string? problem
function params.list(given, first)
  if params.is_module(given) then return from_iterator(given:named_parameters()) end
  if optlua.is_tensor(given) then return nil, "one tensor is no list; write { tensor }" end
  if type(given) == "function" then return from_iterator(given) end
  if type(given) == "table" then return from_list(given, first) end
  return nil, ("parameters are a module, an iterator or a list, not a %s"):format(type(given))
end

--- Says on stderr that what has been handed over, a module or an iterator, holds no parameter. A list without any is
--- meant to be empty.
---@param what string
---@param given any
---@param count integer
function params.note_empty(what, given, count)
  if count > 0 or type(given) == "table" and not params.is_module(given) then return end
  io.stderr:write("optlua: ", what, ": there are no parameters; nothing will be trained\n")
end

--- An iterator (name, tensor, module) over a list of parameters.
---@param list table[]
---@return fun(): string, optlua.Tensor, table
function params.iterate(list)
  local i = 0
  return function()
    i = i + 1
    if list[i] then return table.unpack(list[i], 1, 3) end
  end
end

--- Gives the parameters of a group its name as a prefix, where one of them has a name that is taken by
--- another tensor: two modules may both have a `weight`.
---@param list table[]
---@param group string
---@param taken table<string, optlua.Tensor> earlier names; those of the list are added
function params.distinguish(list, group, taken)
  local clash = false
  for _, entry in ipairs(list) do clash = clash or taken[entry[1]] ~= nil and taken[entry[1]] ~= entry[2] end
  for _, entry in ipairs(list) do
    if clash then entry[1] = group .. "." .. entry[1] end
  end
  for _, entry in ipairs(list) do taken[entry[1]] = entry[2] end
end

--- Finds a tensor or a name that occurs twice, or two tensors that share memory.
---@param list table[]
---@return string? problem
function params.clash(list)
  local name_of, seen, tensors = {}, {}, {}
  for i, entry in ipairs(list) do
    local name, tensor = entry[1], entry[2]
    if name_of[tensor] then
      return ("parameters '%s' and '%s' are the same tensor; it would be updated twice"):format(name_of[tensor], name)
    end
    if seen[name] then return ("two parameters are named '%s'; give them names of their own: { { \"name\", tensor }, … }"):format(name) end
    name_of[tensor], seen[name], tensors[i] = name, true, tensor
  end
  local first, second = core.overlap(tensors)
  if first then
    return ("parameters '%s' and '%s' share memory; it would be updated twice"):format(list[first][1], list[second][1])
  end
end

--- What a parameter is for its layer: "weight", "bias", "norm" (every parameter of a layer that
--- normalises), "embedding", or what the layer declares in its field `role`: a word for all of its
--- parameters, or a table from their names to words.
---@param name string full name
---@param param optlua.Tensor
---@param module? table the module that owns it
---@return string
function params.role(name, param, module)
  local last = name:match "[^.]*$"
  local role = module and module.role
  if type(role) == "table" then role = role[last] end
  if type(role) == "string" then return role end
  return last == "bias" and "bias" or "weight"
end

return params
