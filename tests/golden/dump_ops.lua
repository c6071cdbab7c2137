-- Prints every sample of every op that draws no random numbers as one line of JSON, for make_ops.py:
--   lua5.4 tests/golden/dump_ops.lua [FAMILY...] >samples.jsonl   (LUA_PATH and LUA_CPATH as the tests have them)
local optlua = require "optlua"
local samples = require "samples"

local function number(x)
  if x ~= x then return "NaN" end
  if x == math.huge then return "Infinity" elseif x == -math.huge then return "-Infinity" end
  return ("%.17g"):format(x)
end

local function encode(value)
  if optlua.is_tensor(value) then
    local flat = {}
    for k, x in ipairs(value:contiguous():reshape(-1):totable()) do flat[k] = number(x) end
    return ('{"tensor":[%s],"shape":[%s],"dtype":"%s","grad":%s}'):format(table.concat(flat, ","),
      table.concat(value.shape, ","), value.dtype, value.requires_grad)
  elseif type(value) == "table" then
    local list, named = {}, {}
    for _, item in ipairs(value) do list[#list + 1] = encode(item) end
    for key, item in pairs(value) do
      if type(key) == "string" then named[#named + 1] = ('"%s":%s'):format(key, encode(item)) end
    end
    table.sort(named)
    if #named > 0 then return ('{"named":{%s}}'):format(table.concat(named, ",")) end
    return "[" .. table.concat(list, ",") .. "]"
  elseif type(value) == "string" then
    return ('"%s"'):format(value)
  elseif type(value) == "number" then
    return number(value)
  end
  return tostring(value)
end

local wanted = {}
for _, name in ipairs(arg) do wanted[name] = true end

for _, family in ipairs(require("optlua.core").registry()) do
  for _, op in ipairs(family.ops) do
    if op.samples and not op.random and (#arg == 0 or wanted[family.name]) then
      local params = {}
      for p, param in ipairs(op.params) do params[p] = ('["%s","%s"]'):format(param.name, param.kind) end
      for n, arguments in ipairs(samples.of(op, "float64")) do
        print(('{"family":"%s","op":"%s","sample":%d,"params":[%s],"args":%s}'):format(family.name, op.name, n,
          table.concat(params, ","), encode(arguments)))
      end
    end
  end
end
