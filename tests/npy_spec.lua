-- .npy files, written by NumPy and by us.
local optlua = require "optlua"
local core = require "optlua.core"
local npy, tensor = optlua.npy, optlua.tensor

local fails = require("fails").matching

local function golden(name) return npy.load("tests/golden/npy/" .. name .. ".npy") end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

local function write(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end

-- A file of version 1.0 with this header and these bytes.
local function made(header, bytes)
  return "\x93NUMPY\1\0" .. string.pack("<s2", header) .. (bytes or "")
end

describe("npy.load", function()
  local path
  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  it("reads what NumPy writes", function()
    for name, expected in pairs {
      f4 = { "float32", { { 0, 0.25, 0.5 }, { 0.75, 1, 1.25 } } },
      f8 = { "float64", { { 0, 1 / 3, 2 / 3 }, { 1, 4 / 3, 5 / 3 } } },
      i8 = { "int64", { math.maxinteger, math.mininteger, 0 } },
      u1 = { "uint8", { 0, 255 } },
      b1 = { "uint8", { { 1 }, { 0 } } },
      i1 = { "int64", { -128, 127 } },
      i2 = { "int64", { -32768, 32767 } },
      i4 = { "int64", { -(1 << 31), (1 << 31) - 1 } },
      u4 = { "int64", { 0, (1 << 32) - 1 } },
      scalar = { "float64", 2.5 },
      empty = { "float32", {} },
      fortran_i2 = { "int64", { { 0, 1, 2 }, { 3, 4, 5 } } },
      version2 = { "float32", { { 0, 1, 2 }, { 3, 4, 5 } } },
    } do
      local t = golden(name)
      assert.are.same(expected, { t.dtype, t:totable() }, name)
      assert.is_true(t:is_contiguous())
    end
    assert.are.same({ 0, 3 }, golden("empty").shape)
  end)

  it("transposes Fortran's order", function()
    local t = golden "fortran"
    assert.are.same({ 2, 3, 4 }, t.shape)
    assert.is_true(t:equal(optlua.arange(24):reshape(2, 3, 4)))
  end)

  it("refuses what it cannot hold, and says so", function()
    fails("big_endian.npy: big%-endian data %(>f4%) is not supported", golden, "big_endian")
    fails('complex.npy: elements of type "<c8" are not supported', golden, "complex")
    fails('elements of type "<f2" are not supported', golden, "half")
    fails('elements of type "<U2" are not supported', golden, "text")
    fails("structured arrays are not supported", golden, "structured")
    fails("more than 8 dimensions", golden, "nine")
    fails("version 3.0 of .npy is not supported", golden, "version3")
    fails("^tests/npy_spec.lua:%d+: no/such/file.npy: No such file", function() local t = npy.load "no/such/file.npy" return t end)
    fails("path has no byte 0", npy.load, "a\0b")
    fails("string expected", npy.load)
  end)

  it("refuses files that are cut anywhere", function()
    local whole = read "tests/golden/npy/f4.npy"
    for length = 0, #whole - 1 do
      write(path, whole:sub(1, length))
      fails("too short", npy.load, path)
    end
    write(path, whole)
    assert.are.equal(6, npy.load(path):numel())
  end)

  it("refuses headers that are malformed", function()
    local good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
    local bytes = string.pack("<ff", 1, 2)
    write(path, made(good, bytes))
    assert.are.same({ 1, 2 }, npy.load(path):totable())
    write(path, made('{"shape":(2L,),"fortran_order":False,"descr":"<f4"}', bytes))
    assert.are.same({ 1, 2 }, npy.load(path):totable())
    for _, bad in ipairs {
      "", "[]", "{", "{}", "{'descr': '<f4'}", good .. "x", good:gsub("}", ""), good:gsub("'<f4'", "<f4"),
      good:gsub("%(2,%)", "(2)"), good:gsub("%(2,%)", "2"), good:gsub("%(2,%)", "(-2,)"),
      good:gsub("%(2,%)", "(2.0,)"), good:gsub("%(2,%)", "(,)"), good:gsub("False", "0"), good:gsub("'shape'", "'shaep'"),
      good:gsub("{", "{'descr': '<f4', "), good:gsub("%(2,%)", "(99999999999999999999,)"), good:gsub("'descr':", "'descr'"),
      good:gsub("False,", "False"), good:gsub("<f4", ("x"):rep(40)), good:gsub("{", "{ {"),
    } do
      write(path, made(bad, bytes))
      fails("the header is malformed", npy.load, path)
    end
    write(path, made(good:gsub("%(2,%)", "(2, 2, 1, 2305843009213693952)"), bytes))
    fails("too large", npy.load, path)
    write(path, made(good:gsub("%(2,%)", "(1000000000000,)"), bytes))
    fails("too short: 8 bytes of elements, not 4000000000000", npy.load, path)
    write(path, made("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", ("\0"):rep(9)))
    fails("1 bytes follow the elements", npy.load, path)
    write(path, "\x93NUMPY\2\0\xff\xff\xff\x7f" .. good)
    fails("header is too long", npy.load, path)
    write(path, "not a npy file at all")
    fails("it is no .npy file", npy.load, path)
  end)
end)

describe("npy.save", function()
  local path
  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  it("writes the very bytes that NumPy writes", function()
    for _, name in ipairs { "f4", "f8", "i8", "u1", "scalar", "empty" } do
      local whole = "tests/golden/npy/" .. name .. ".npy"
      npy.save(path, npy.load(whole))
      assert.are.equal(read(whole), read(path), name)
    end
  end)

  it("packs strided tensors", function()
    npy.save(path, optlua.arange(12):reshape(3, 4):t()[{ { 2, 3 } }])
    assert.are.same({ { 1, 5, 9 }, { 2, 6, 10 } }, npy.load(path):totable())
  end)

  it("can replace the file that was read", function()
    npy.save(path, tensor { 1, 2, 3 })
    npy.save(path, npy.load(path))
    assert.are.same({ 1, 2, 3 }, npy.load(path):totable())
  end)

  it("leaves the old file, and nothing else, when it fails", function()
    npy.save(path, tensor { 1, 2, 3 })
    local old = read(path)
    fails("NumPy has no bfloat16", npy.save, path, tensor({ 1 }, "bfloat16"))
    fails("tensor expected, got table", npy.save, path, {})
    assert.are.equal(old, read(path))
    fails("cannot be written: No such file or directory", npy.save, "/no/such/folder/x.npy", tensor { 1 })
    fails("cannot be written: it is no regular file", npy.save, "tests", tensor { 1 })
    local fifo = path .. ".fifo"
    assert(os.execute("mkfifo " .. fifo))
    fails("cannot be written: it is no regular file", npy.save, fifo, tensor { 1 })
    assert.is_true(os.execute("test -p " .. fifo))
    os.remove(fifo)
    local pipe = io.popen("ls " .. path .. "*")
    assert.are.equal(path .. "\n", pipe:read "a")
    pipe:close()
  end)

  it("keeps the permissions of the file that it replaces", function()
    for _, mode in ipairs { "600", "664" } do
      assert(os.execute(("chmod %s %s"):format(mode, path)))
      npy.save(path, tensor { 1 })
      local pipe = io.popen("stat -c %a " .. path)
      assert.are.equal(mode .. "\n", pipe:read "a")
      pipe:close()
    end
  end)

  it("leaves a link to nothing alone", function()
    os.remove(path)
    assert(os.execute(("ln -s %s.none %s"):format(path, path)))
    fails("cannot be written: No such file", npy.save, path, tensor { 1 })
    assert(os.execute("test -L " .. path))
  end)

  it("follows links", function()
    local link = path .. ".link"
    assert(os.execute(("ln -s %s %s"):format(path, link)))
    npy.save(link, tensor { 5 })
    local pipe = io.popen("readlink " .. link)
    assert.are.equal(path .. "\n", pipe:read "a")
    pipe:close()
    assert.are.same({ 5 }, npy.load(path):totable())
    os.remove(link)
  end)

  it("survives allocations that fail", function()
    npy.save(path, optlua.ones(2, 3))
    local fortran = "tests/golden/npy/fortran.npy"
    for _, fn in ipairs {
      function() npy.load(path) end, function() npy.load(fortran) end,
      function() npy.save(path, optlua.arange(6):reshape(2, 3):t()) end,
    } do
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
      assert.is_true(count > 3)
    end
  end)
end)
