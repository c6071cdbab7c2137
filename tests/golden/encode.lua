-- encode: values of samples as JSON, for the Python scripts that make golden numbers. A tensor becomes
-- {"tensor":[…],"shape":[…],"dtype":…,"grad":…}, named options {"named":{…}}.
local optlua = require "optlua"

local function number(x)
  if x ~= x then return "NaN" end
  if x == math.huge then return "Infinity" elseif x == -math.huge then return "-Infinity" end
  return ("%.17g"):format(x)
end

local function encode_tensor(tensor)
  local flat = {}
  for k, x in ipairs(tensor:contiguous():reshape(-1):totable()) do flat[k] = number(x) end
  return ('{"tensor":[%s],"shape":[%s],"dtype":"%s","grad":%s}'):format(table.concat(flat, ","),
    table.concat(tensor.shape, ","), tensor.dtype, tensor.requires_grad)
end

local function encode(value)
  if optlua.is_tensor(value) then return encode_tensor(value) end
  if type(value) == "string" then return ('"%s"'):format(value) end
  if type(value) == "number" then return math.type(value) == "integer" and tostring(value) or number(value) end
  if type(value) ~= "table" then return tostring(value) end
  local list, named = {}, {}
  for _, item in ipairs(value) do list[#list + 1] = encode(item) end
  for key, item in pairs(value) do
    if type(key) == "string" then named[#named + 1] = ('"%s":%s'):format(key, encode(item)) end
  end
  table.sort(named)
  if #named > 0 then return ('{"named":{%s}}'):format(table.concat(named, ",")) end
  return "[" .. table.concat(list, ",") .. "]"
end

return encode
