-- Prints every sample of every op that draws no random numbers as one line of JSON, for make_ops.py:
--   lua5.4 tests/golden/dump_ops.lua [FAMILY...] >samples.jsonl   (LUA_PATH and LUA_CPATH as the tests have them)
local samples = require "samples"
local encode = require "golden.encode"

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
