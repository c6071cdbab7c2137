-- Prints every sample of every layer as one line of JSON, for make_layers.py:
--   lua5.4 tests/golden/dump_layers.lua [CLASS...] >samples.jsonl   (LUA_PATH and LUA_CPATH as the tests have them)
local encode = require "golden.encode"
local layers = require "layers"

local wanted = {}
for _, name in ipairs(arg) do wanted[name] = true end

for _, class in ipairs(layers.all()) do
  if class.samples and (#arg == 0 or wanted[class.name]) then
    for n, sample in ipairs(layers.samples(class, "float64")) do
      if not sample.without then
        print(('{"class":"%s","sample":%d,"eval":%s,"args":%s,"inputs":%s}'):format(class.name, n,
          sample.eval == true, encode(sample.arguments), encode(sample.inputs)))
      end
    end
  end
end
