-- safetensors files, written by the reference and by us.
local optlua = require "optlua"
local core = require "optlua.core"
local process = require "process"
local fails = require "fails"
local safetensors = optlua.safetensors

local read, write = process.read, process.write
local matching, containing = fails.matching, fails.containing

local function golden(name) return "tests/golden/safetensors/" .. name .. ".safetensors" end

-- A file with this header and these bytes.
local function made(header, bytes) return string.pack("<s8", header) .. (bytes or "") end

-- The entry of a tensor in a header.
local function entry(name, dtype, shape, first, last)
  return ('"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(name, dtype, shape, first, last)
end

-- Whether tensors are equal, NaN where NaN is.
local function same(a, b)
  local x, y = a:reshape(-1):totable(), b:reshape(-1):totable()
  for i = 1, math.max(#x, #y) do
    if x[i] ~= y[i] and (x[i] == x[i] or y[i] == y[i]) then return false end
  end
  return a.dtype == b.dtype and table.concat(a.shape, ",") == table.concat(b.shape, ",")
end

-- Calls fn with every allocation failing in turn; nothing is left behind.
local function survives(fn)
  collectgarbage()
  collectgarbage()
  local before, count = core.hidden.memory().live_blocks, 0
  repeat
    core.hidden.fail_allocations(count, false)
    local ok = pcall(fn)
    core.hidden.fail_allocations(-1)
    collectgarbage()
    collectgarbage()
    assert.are.equal(before, core.hidden.memory().live_blocks)
    count = count + 1
  until ok
  return count
end

local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

describe("optlua.load", function()
  it("reads what the reference writes", function()
    local t, metadata = optlua.load(golden "held")
    assert.are.same({ ["made by"] = "safetensors\n„1“" }, metadata)
    for name, expected in pairs {
      weight = { "float32", { { 0, 0.25, 0.5 }, { 0.75, 1, 1.25 } } },
      bias = { "float64", { 0, 1 / 3, 2 / 3 } },
      ids = { "int64", { math.maxinteger, math.mininteger, 0 } },
      bytes = { "uint8", { 0, 255 } },
      ["half.weight"] = { "bfloat16", { 1, -2.5, math.huge } },
      ["a scalar"] = { "float32", 2.5 },
      empty = { "float32", {} },
      ['über "\\\t\1\127'] = { "float32", { 1 } },
    } do
      assert.are.same(expected, { t[name].dtype, t[name]:totable() }, name)
      assert.is_true(t[name]:is_contiguous())
      assert.is_false(t[name].requires_grad)
      t[name] = nil
    end
    assert.is_nil(next(t))
    assert.are.same({ {}, {} }, { optlua.load(golden "none") })
  end)

  it("reads only the names that are asked for", function()
    local t = optlua.load(golden "held", { names = { "bias", "ids" } })
    assert.are.same({ "bias", "ids" }, optlua.options.names(t))
    containing('no tensor is named "wieght" (did you mean "weight"?)', optlua.load, golden "held",
      { names = { "bias", "wieght" } })
    assert.is_nil(next((optlua.load(golden "held", { names = {} }))))
  end)

  it("converts other types on request, exactly", function()
    local t = optlua.load(golden "others", {
      dtype = { F16 = "float32", F8_E5M2 = "float32", F8_E4M3 = "float32", F8_E5M2FNUZ = "float32", F8_E4M3FNUZ = "float32",
        F8_E8M0 = "float32", I8 = "int64", I16 = "int64", U16 = "int64", I32 = "int64", U32 = "int64" },
      names = { "F16", "F16.float32", "F8_E5M2", "F8_E5M2.float32", "F8_E4M3", "F8_E4M3.float32", "F8_E5M2FNUZ",
        "F8_E5M2FNUZ.float32", "F8_E4M3FNUZ", "F8_E4M3FNUZ.float32", "F8_E8M0", "F8_E8M0.float32", "I8", "I8.int64",
        "I16", "I16.int64", "U16", "U16.int64", "I32", "I32.int64", "U32", "U32.int64", "BOOL" },
    })
    for name, expected in pairs(t) do
      local plain = name:match "^(.*)%.%w+$"
      if plain then assert.is_true(same(expected, t[plain]), plain) end
    end
    assert.are.same({ "uint8", { { 1 }, { 0 } } }, { t.BOOL.dtype, t.BOOL:totable() })
  end)

  it("converts floats to a float; integers that tensors do not have; and leaves the others", function()
    local t = optlua.load(golden "others", { dtype = "float64", names = { "F16", "F16.float32", "I8", "I8.int64", "BOOL" } })
    local kinds = {}
    for name, tensor in pairs(t) do kinds[name] = tensor.dtype end
    assert.are.same({ F16 = "float64", ["F16.float32"] = "float64", I8 = "float64", ["I8.int64"] = "int64", BOOL = "uint8" }, kinds)
    assert.is_true(same(t.F16, t["F16.float32"]))
    t = optlua.load(golden "others", { dtype = "int64", names = { "U32", "U32.int64", "F16.float32" } })
    assert.is_true(same(t.U32, t["U32.int64"]))
    assert.are.equal("float32", t["F16.float32"].dtype)
    t = optlua.load(golden "held", { dtype = "float32" })
    assert.are.equal("float32", t["half.weight"].dtype)
    assert.are.same({ 1, -2.5, math.huge }, t["half.weight"]:totable())
    assert.are.equal("int64", t.ids.dtype)
    assert.are.equal("bfloat16", optlua.load(golden "held", { dtype = "bfloat16", names = { "bias" } }).bias.dtype)
  end)

  it("converts more than one piece of a large tensor", function()
    local count = 50001
    local words = {}
    for i = 1, count do words[i] = string.pack("<i2", i % 60000 - 30000) end
    write(path, made("{" .. entry("x", "I16", count, 0, 2 * count) .. "}", table.concat(words)))
    local x = optlua.load(path, { dtype = "int64" }).x
    assert.is_true(x:equal(optlua.arange(1, count + 1):fmod(60000) - 30000))
  end)

  it("refuses what must be converted, naming all", function()
    local message = containing('F16 must be converted: dtype = "float32"', optlua.load, golden "others")
    for _, name in ipairs { "F16", "F8_E8M0", "I8", "U32" } do assert.matches(name .. ": " .. name .. " must be", message) end
    assert.matches("C64: C64 cannot be converted", message)
    assert.matches("^tests/safetensors_spec.lua:%d+: ", matching("must be", function()
      local t = optlua.load(golden "others")
      return t
    end))
    containing("F4: F4 cannot be converted", optlua.load, golden "rare", { dtype = "float32" })
    containing("F6: F6_E2M3 cannot be converted", optlua.load, golden "rare")
    containing("too large: 9223372036854775808 is larger than the largest int64", optlua.load, golden "rare",
      { names = { "too large" }, dtype = "int64" })
    assert.are.same({ 7, math.maxinteger }, optlua.load(golden "rare", { names = { "U64" }, dtype = "int64" }).U64:totable())
    containing("nine: it has more than 8 dimensions", optlua.load, golden "rare", { names = { "nine" } })
  end)

  it("checks its options", function()
    containing("unknown option \"dtpye\" (did you mean \"dtype\"?)", optlua.load, golden "held", { dtpye = "float32" })
    containing('unknown dtype "flaot32" (did you mean "float32"?)', optlua.load, golden "held", { dtype = "flaot32" })
    containing("F16 cannot become int64", optlua.load, golden "held", { dtype = { F16 = "int64" } })
    containing('files have no type "F17"', optlua.load, golden "held", { dtype = { F17 = "float32" } })
    matching("no/such/file: cannot be read: No such file", optlua.load, "no/such/file")
    matching("path", optlua.load)
    containing("tests: it is no regular file", optlua.load, "tests")
    containing("a path has no byte 0", optlua.load, "a\0b")
  end)

  it("refuses pickles with the command that converts them", function()
    for _, name in ipairs { "zip.pt", "old.pt" } do
      local message = containing("python3 -c 'import sys, torch", optlua.load, "tests/golden/safetensors/" .. name)
      assert.matches(name .. ": it is a pickle", message)
      assert.matches("torch%.load%(sys%.argv%[1%], map_location=\"cpu\", weights_only=True%)", message)
    end
  end)

  it("gives tied tensors under both names", function()
    local t, metadata = optlua.load(golden "tied")
    assert.are.equal(t["head.weight"], t["embedding.weight"])
    assert.are.same({ 4, 3 }, t["head.weight"].shape)
    assert.are.same({}, metadata)
    optlua.save(path, t)
    assert.are.equal(read(golden "tied"), read(path))
    t = optlua.load(golden "tied", { names = { "head.weight" } })
    assert.are.same({ "head.weight" }, optlua.options.names(t))
  end)
end)

describe("safetensors.list", function()
  it("tells what is in a file", function()
    local entries, metadata = safetensors.list(golden "others")
    local by_name = {}
    for _, e in ipairs(entries) do by_name[e.name] = e end
    assert.are.same({ name = "BOOL", stored = "BOOL", dtype = "uint8", shape = { 2, 1 } }, by_name.BOOL)
    assert.are.same({ name = "F8_E4M3", stored = "F8_E4M3", shape = { 256 } }, by_name.F8_E4M3)
    assert.are.same({}, metadata)
  end)
end)

describe("a file that is malformed", function()
  local good = "{" .. entry("a", "F32", "2", 0, 8) .. "," .. entry("b", "U8", "3", 8, 11) .. "}"
  local bytes = string.pack("<ffI3", 1, 2, 0)

  it("is read when nothing is wrong", function()
    for _, header in ipairs { good, good .. "   ", "{ " .. good:sub(2), '{"__metadata__":{},' .. good:sub(2) } do
      write(path, made(header, bytes))
      assert.are.same({ 1, 2 }, optlua.load(path).a:totable())
    end
    write(path, made("{" .. entry("a", "F32", "0,9223372036854775807", 0, 0) .. "," .. entry("b", "F32", "0", 0, 0) .. "}"))
    containing("shape is too large", optlua.load, path) -- the reference reads it
    write(path, made("{" .. entry("a", "F32", "0,1000000", 0, 0) .. "," .. entry("b", "F32", "0", 0, 0) .. "}"))
    assert.are.same({ 0, 1000000 }, optlua.load(path).a.shape)
  end)

  it("is refused when it is cut anywhere", function()
    for _, name in ipairs { "held", "tied" } do
      local whole = read(golden(name))
      for length = 0, #whole - 1 do
        write(path, whole:sub(1, length))
        matching("too short", optlua.load, path)
      end
      write(path, whole .. "\0")
      containing("1 bytes lie behind the last tensor", optlua.load, path)
    end
  end)

  it("is refused for its length", function()
    write(path, string.pack("<I8", 100000001) .. "{")
    containing("a header of 100000001 bytes", optlua.load, path)
    write(path, string.pack("<I8", 100000000) .. "{")
    containing("too short for a header of 100000000 bytes", optlua.load, path)
    write(path, string.pack("<I8", 0) .. "{")
    containing("too short for a header of 0 bytes", optlua.load, path)
    write(path, ("\xff"):rep(8) .. "{}")
    containing("a header of 18446744073709551615 bytes", optlua.load, path)
    write(path, "")
    containing("the file is too short: 0 bytes", optlua.load, path)
  end)

  local function patched(old, new)
    local from, to = good:find(old, 1, true)
    return good:sub(1, from - 1) .. new .. good:sub(to + 1)
  end

  for what, case in pairs {
    ["a space in front"] = { " " .. good, "does not begin with {" },
    ["a list"] = { "[" .. good .. "]", "does not begin with {" },
    ["a mark of byte order"] = { "\xef\xbb\xbf" .. good, "does not begin with {" },
    ["no end"] = { good:sub(1, -2), "the header is malformed" },
    ["a second object"] = { good .. "{}", "the header is malformed" },
    ["a byte 0 behind"] = { good .. "\0", "the header is malformed" },
    ["a comma too many"] = { patched("]},", "]},,"), "the header is malformed" },
    ["no UTF-8 in a name"] = { patched('"b"', '"\xff"'), "the header is malformed" },
    ["an overlong form"] = { patched('"b"', '"\xc0\xaf"'), "the header is malformed" },
    ["half a pair in a name"] = { patched('"b"', '"\\ud800"'), "the header is malformed" },
    ["a byte 0 in a name"] = { patched('"b"', '"b\\u0000"'), "the header is malformed" },
    ["a name twice"] = { patched('"b"', '"a"'), "duplicate object key" },
    ["a name twice, once escaped"] = { patched('"b"', '"\\u0061"'), "duplicate object key" },
    ["a key twice"] = { patched('"shape"', '"dtype":"F32","shape"'), "duplicate object key" },
    ["depth without end"] = { patched("[2]", ("["):rep(100000)), "the header is malformed" },
    ["a tensor that is a number"] = { patched(entry("b", "U8", "3", 8, 11), '"b":3'), '"b": is no object' },
    ["a key that is missing"] = { patched('"dtype":"F32",', ""), '"a": lacks one of dtype, shape and data_offsets' },
    ["a key that is unknown"] = { patched('"dtype"', '"type":1,"dtype"'), '"a": has more than' },
    ["a dtype that is unknown"] = { patched("F32", "F33"), '"a": dtype "F33" is unknown' },
    ["a dtype in small letters"] = { patched("F32", "f32"), '"a": dtype "f32" is unknown' },
    ["a dtype that is a number"] = { patched('"F32"', "32"), '"a": dtype is no string' },
    ["a shape that is a number"] = { patched("[2]", "2"), '"a": shape is no list' },
    ["a size below 0"] = { patched("[2]", "[-2]"), '"a": shape has something that is no size' },
    ["a size with a fraction"] = { patched("[2]", "[2.0]"), '"a": shape has something that is no size' },
    ["a size that is true"] = { patched("[2]", "[true]"), '"a": shape has something that is no size' },
    ["a size beyond integers"] = { patched("[2]", "[9223372036854775808]"), "the header is malformed" },
    ["sizes whose product overflows"] = { patched("[2]", "[2,2,1,2305843009213693952]"), '"a": shape is too large' },
    ["sizes whose bytes overflow"] = { patched("[2]", "[2305843009213693954]"), '"a": shape is too large' },
    ["sizes that a 0 hides"] = { patched("[2]", "[0,4611686018427387904,4]"), '"a": shape is too large' },
    ["a shape that is too large"] = { patched("[2]", "[3]"), '"a": has 8 bytes, but its shape and dtype F32 make 12' },
    ["a shape that is too small"] = { patched("[2]", "[1]"), '"a": has 8 bytes, but its shape and dtype F32 make 4' },
    ["a wider dtype"] = { patched("F32", "F64"), "make 16" },
    ["half a byte"] = { patched('"F32","shape":[2]', '"F4","shape":[3]'), '"a": ends within a byte' },
    ["three places"] = { patched("[0,8]", "[0,4,8]"), '"a": data_offsets is no pair of counts' },
    ["a place below 0"] = { patched("[0,8]", "[-8,0]"), '"a": data_offsets is no pair of counts' },
    ["a place with a fraction"] = { patched("[0,8]", "[0,8e0]"), '"a": data_offsets is no pair of counts' },
    ["an end before the begin"] = { patched("[0,8]", "[8,0]"), '"a": ends before it begins' },
    ["a hole at the begin"] = { patched("[0,8]", "[1,9]"), '"a": begins behind a hole' },
    ["a hole"] = { patched("[8,11]", "[9,12]"), '"b": begins behind a hole' },
    ["an overlap"] = { patched("[8,11]", "[7,10]"), '"b": overlaps another tensor' },
    ["two at the same place"] = { patched("[8,11]", "[0,3]"), '"a": overlaps another tensor' },
    ["an end behind the file"] = { patched('[3],"data_offsets":[8,11]', '[4],"data_offsets":[8,12]'),
      "the file is too short: 11 bytes of elements, not 12" },
    ["bytes behind the last"] = { patched('[3],"data_offsets":[8,11]', '[2],"data_offsets":[8,10]'),
      "1 bytes lie behind the last tensor" },
    ["metadata that is a list"] = { '{"__metadata__":[],' .. good:sub(2), '"__metadata__": is no object' },
    ["metadata that is null"] = { '{"__metadata__":null,' .. good:sub(2), '"__metadata__": is no object' },
    ["metadata with a number"] = { '{"__metadata__":{"x":1},' .. good:sub(2), 'metadata "x": is no string' },
    ["metadata with a key twice"] = { '{"__metadata__":{"x":"","x":""},' .. good:sub(2), "duplicate object key" },
  } do
    it("is refused for " .. what, function()
      write(path, made(case[1], bytes))
      local message = containing(case[2], optlua.load, path)
      assert.matches(path .. ": ", message, 1, true)
    end)
  end
end)

describe("optlua.save", function()
  it("writes the very bytes that the reference writes", function()
    for _, name in ipairs { "held", "tied", "none" } do
      optlua.save(path, optlua.load(golden(name)))
      if name == "held" then optlua.save(path, optlua.load(golden(name))) end
      local t, metadata = optlua.load(golden(name))
      optlua.save(path, t, metadata)
      assert.are.equal(read(golden(name)), read(path), name)
    end
  end)

  it("names tensors in nested tables with dots", function()
    optlua.save(path, { a = { b = optlua.ones(1), c = { d = optlua.zeros(2) } }, ["a.e"] = optlua.ones(3), none = {} })
    assert.are.same({ "a.b", "a.c.d", "a.e" }, optlua.options.names((optlua.load(path))))
    containing("two tensors have the name a.b", optlua.save, path, { a = { b = optlua.ones(1) }, ["a.b"] = optlua.ones(1) })
    containing("optlua.save: the path comes first: optlua.save(path, tensors)", optlua.save, { a = optlua.ones(1) }, path)
    local ring = { x = optlua.ones(1) }
    ring.ring = ring
    containing("ring: a table cannot contain itself", optlua.save, path, ring)
  end)

  it("case 46: can replace the file that was read", function()
    optlua.save(path, { x = optlua.tensor { 1, 2, 3 } })
    optlua.save(path, optlua.load(path))
    assert.are.same({ 1, 2, 3 }, optlua.load(path).x:totable())
    local t = optlua.load(path)
    optlua.save(path, { y = optlua.zeros(100) })
    optlua.save(path, t)
    assert.are.same({ 1, 2, 3 }, optlua.load(path).x:totable())
  end)

  it("case 47: packs strided tensors and overlapping views", function()
    local base = optlua.arange(12, { dtype = "float32" }):reshape(3, 4)
    local tensors = {
      base = base, t = base:t(), rows = base[{ { 1, 2 } }], columns = base[{ {}, { 2, 3 } }], flat = base:reshape(-1),
      one = base[2][3], expanded = base[1]:expand(2, 4), head = base:reshape(-1)[{ { 1, 8 } }], tail = base:reshape(-1)[{ { 5, 12 } }],
      half = base:to("bfloat16"):t(), reversed = base:t():t(), none = base[{ {}, { 2, 3 } }]:narrow(1, 1, 0),
    }
    optlua.save(path, tensors)
    local loaded = optlua.load(path)
    for name, tensor in pairs(tensors) do
      assert.is_true(same(tensor:contiguous(), loaded[name]), name)
      loaded[name] = nil
    end
    assert.is_nil(next(loaded))
  end)

  it("writes tensors with the same elements once, others by themselves", function()
    local x = optlua.arange(6):reshape(2, 3)
    optlua.save(path, { b = x, c = x:detach(), a = x:reshape(-1):reshape(2, 3), flat = x:reshape(-1), t = x:t(), copy = x:clone() })
    local entries, metadata = safetensors.list(path)
    local names = {}
    for i, e in ipairs(entries) do names[i] = e.name end
    assert.are.same({ "a", "copy", "flat", "t" }, names)
    assert.are.same({ b = "a", c = "a" }, metadata)
    local t, rest = optlua.load(path)
    assert.are.equal(t.a, t.c)
    assert.is_true(t.b:equal(x) and t.copy:equal(x) and t.t:equal(x:t()))
    assert.are.same({}, rest)
    optlua.save(path, { a = optlua.zeros(0), b = optlua.zeros(0) }) -- nothing is shared
    assert.are.equal(2, #safetensors.list(path))
  end)

  it("leaves aliases apart from other metadata", function()
    local x = optlua.ones(1)
    optlua.save(path, { a = x, b = x }, { note = "x", ["b.note"] = "b" == "a" and "" or "c" })
    local t, metadata = optlua.load(path)
    assert.are.equal(t.a, t.b)
    assert.are.same({ note = "x", ["b.note"] = "c" }, metadata)
    containing("it would be read as another name", optlua.save, path, { a = x }, { best = "a" })
    containing('metadata "b" is the name of a tensor that is tied', optlua.save, path, { a = x, b = x }, { b = "?" })
  end)

  it("keeps every bit", function()
    local values = { 0 / 0, -(0 / 0), 1 / 0, -1 / 0, 0.0, -0.0, 5e-324, 2 ^ -149, 1 / 3 }
    for _, dtype in ipairs { "float64", "float32", "bfloat16" } do
      optlua.save(path, { x = optlua.tensor(values, { dtype = "float64" }):to(dtype) })
      local first = read(path)
      optlua.save(path, optlua.load(path))
      assert.are.equal(first, read(path), dtype)
    end
  end)

  it("refuses what it cannot write, and then leaves the old file and nothing else", function()
    local x = optlua.ones(2)
    optlua.save(path, { x = x })
    local old = read(path)
    containing("f: a tensor or a table of tensors expected, got function", optlua.save, path, { f = print })
    containing("a.b: a tensor or a table of tensors expected, got number; the state of an optimizer, and plain values, are saved by optlua.checkpoint.save", optlua.save, path, { a = { b = 1 } })
    containing("a.betas: a tensor or a table of tensors expected, got a list; the state of an optimizer, and plain values, are saved by "
      .. "optlua.checkpoint.save(path, { optimizer = optimizer, extra = { … } })", optlua.save, path, { a = { betas = { 0.9, 0.99 } } })
    for _ = 1, 5 do -- the first in the order of names
      containing("optlua.save: class.default: a tensor", optlua.save, path, optlua.optim.AdamW(optlua.nn.Linear(1, 1)):state_dict())
    end
    containing("names are strings, got 1", optlua.save, path, { x })
    containing("a: names are strings, got 2", optlua.save, path, { a = { [2] = x } })
    containing("a module saves itself: module:save(path)", optlua.save, path, optlua.nn.Linear(1, 1))
    containing("a module saves itself", optlua.save, path, { m = optlua.nn.Linear(1, 1) })
    containing("tensors: a tensor or a table of tensors expected, got userdata", optlua.save, path, x)
    containing("metadata", optlua.save, path, { x = x }, "note")
    containing("metadata: strings by name expected, got note = 1", optlua.save, path, { x = x }, { note = 1 })
    containing("is not UTF-8", optlua.save, path, { ["\xff"] = x })
    containing("is not UTF-8", optlua.save, path, { x = x }, { note = "\xff" })
    containing("a tensor's name has no byte 0", optlua.save, path, { ["a\0b"] = x })
    containing("a value of the metadata has no byte 0", optlua.save, path, { x = x }, { note = "a\0b" })
    containing('"__metadata__" cannot be a tensor\'s name', optlua.save, path, { __metadata__ = x })
    containing("cannot be written: No such file or directory", optlua.save, "/no/such/folder/x", { x = x })
    containing("cannot be written: it is no regular file", optlua.save, "tests", { x = x })
    assert.are.equal(old, read(path))
    local pipe = io.popen("ls " .. path .. "*")
    assert.are.equal(path .. "\n", pipe:read "a")
    pipe:close()
  end)

  it("survives allocations that fail, and leaves the old file", function()
    optlua.save(path, { x = optlua.ones(1) })
    local old = read(path)
    local x = optlua.arange(6, { dtype = "float32" }):reshape(2, 3)
    local other = path .. ".other"
    assert.is_true(survives(function() optlua.save(other, { a = x, b = x, t = x:t() }, { note = "n" }) end) > 4)
    assert.is_true(survives(function() optlua.load(other, { dtype = "float64" }) end) > 8)
    assert.is_true(survives(function() optlua.load(golden "others", { dtype = "float32", names = { "F16", "I8" } }) end) > 6)
    os.remove(other)
    assert.are.equal(old, read(path))
  end)
end)

-- A limit on the size of files ends the program, or fails its write, at that very byte.
describe("a save that is ended anywhere", function()
  local folder, old, again
  local script = [[
    local optlua = require "optlua"
    optlua.save("x.safetensors", { a = optlua.full({ 20000 }, 2), b = optlua.full({ 5000, 2 }, 2):t() })
  ]]

  before_each(function()
    folder = process.folder()
    process.write(folder .. "/save.lua", script)
    optlua.save(folder .. "/x.safetensors", { a = optlua.ones(3) })
    old = read(folder .. "/x.safetensors")
    again = folder .. "/x.safetensors"
  end)
  after_each(function() process.remove(folder) end)

  it("leaves the old file", function()
    for _, blocks in ipairs { 0, 1, 8, 100, 157, 200, 234 } do -- of 512 bytes; the file has 120,152 bytes
      local result = process.run(folder, ("ulimit -f %d; optlua save.lua"):format(blocks))
      assert.are_not.equal(0, result.code, blocks)
      assert.are.equal(old, read(again), blocks)
    end
    assert.are.equal(0, process.run(folder, "ulimit -f 235; optlua save.lua").code)
    assert.are.equal(2, optlua.load(again).b[1][1]:item())
  end)

  it("is an error that leaves nothing else, when it is the disk that is full", function()
    local result = process.run(folder, "trap '' XFSZ; ulimit -f 100; optlua save.lua; ls")
    assert.matches("save.lua:2: .*x.safetensors: writing failed: File too large", result.err)
    assert.are.equal("save.lua\nx.safetensors\n", result.out)
    assert.are.equal(old, read(again))
  end)
end)
