-- Files of token ids.
local optlua = require "optlua"
local files = require "files"
local data = optlua.data

local fails = require("fails").matching

local function pack(form, list) return form:rep(#list):pack(table.unpack(list)) end

--- The bytes of a file of llm.c.
local function llmc(list, change)
  local head = change or {}
  local form = head.form or "<I2"
  return ("<i4i4i4"):pack(head.magic or 20240520, head.version or 1, head.count or #list) .. ("\0"):rep(1012) .. pack(form, list)
end

--- data.tokens of files with these bytes.
local function tokens(bytes, opts)
  local set, path
  files.with_bytes(bytes, function(name)
    path = name
    set = data.tokens(name, opts)
  end)
  return set, path -- the file is open still
end

local function range(first, last)
  local list = {}
  for k = first, last do list[#list + 1] = k end
  return list
end

describe("data.tokens", function()
  it("reads the files of llm.c and nanoGPT", function()
    local ids = range(50000, 50256)
    for _, case in ipairs {
      { llmc(ids), "llmc", "uint16" },
      { llmc(ids, { magic = 20240801, version = 7, form = "<I4" }), "llmc", "uint32" },
      { pack("<I2", ids), "nanogpt", "uint16" },
      { pack("<I4", ids), "nanogpt", "uint32", { dtype = "uint32" } },
    } do
      local opts = case[4] or {}
      opts.context = 3
      local set = tokens(case[1], opts)
      assert.same({ 85, 257, case[2], case[3] }, { #set, set.count, set.format, set.dtype })
      local x, y = set.get(85)
      assert.same({ { 50252, 50253, 50254 }, { 50253, 50254, 50255 }, "int64" }, { x:totable(), y:totable(), x.dtype })
      local xs, ys = set.batch(optlua.tensor({ 1, 0 }, "int64"))
      assert.same({ { { 50003, 50004, 50005 }, { 50000, 50001, 50002 } }, 50006 }, { xs:totable(), ys[{ 1, 3 }]:item() })
      fails("a position from 1 to 85 expected, got 86", set.get, 86)
    end
    local big = tokens(llmc({ 128255, 4294967295 }, { magic = 20240801, version = 7, form = "<I4" }), { context = 1 })
    assert.equal(4294967295, (select(2, big.get(1)))[1]:item())
    local overlapping = tokens(pack("<I2", range(0, 9)), { context = 4, stride = 1 })
    assert.same({ 6, { 5, 6, 7, 8 } }, { #overlapping, (overlapping.get(6)):totable() })
    local forced = tokens(llmc { 1, 2 }, { context = 1, format = "nanogpt", stride = 514 })
    assert.equal(514, forced.count)
  end)

  it("joins files, and no window reaches from one into the next", function()
    files.with_folder(function(folder)
      files.write(folder .. "/a", pack("<I2", range(0, 4)))
      files.write(folder .. "/b", llmc(range(10, 16)))
      local set = data.tokens({ folder .. "/a", folder .. "/b" }, { context = 2 })
      local seen = {}
      for x in data.loader(set, { batch_size = 5 }):batches() do seen = x:totable() end
      assert.same({ { 0, 1 }, { 2, 3 }, { 10, 11 }, { 12, 13 }, { 14, 15 } }, seen)
    end)
  end)

  it("reads the same whatever the order, and the shuffle comes from the seed", function()
    local set = tokens(pack("<I2", range(0, 99)), { context = 4, stride = 1 })
    local function first(seed) return (data.loader(set, { batch_size = 8, shuffle = true, seed = seed }):batches()()):totable() end
    assert.same(first(1), first(1))
    assert.not_same(first(1), first(2))
  end)

  it("refuses files that do not fit their header, and those that are cut", function()
    local whole = llmc(range(1, 9))
    for length = 4, #whole - 1, 7 do fails("cut short", tokens, whole:sub(1, math.min(length, 1023)), { context = 1 }) end
    for length = 1024, #whole - 1 do fails("9 tokens of 2 bytes expected, %d+ bytes are there", tokens, whole:sub(1, length), { context = 1 }) end
    fails("9 tokens of 2 bytes expected, 19 bytes", tokens, whole .. "x", { context = 1 })
    fails("%d+ tokens of 2 bytes expected, 18 bytes", tokens, llmc(range(1, 9), { count = -1 }), { context = 1 })
    fails("version 1 of llm.c's tokens expected, got 2", tokens, llmc({ 1, 2 }, { version = 2 }), { context = 1 })
    fails("version 7 of llm.c's tokens expected, got 1", tokens, llmc({ 1, 2 }, { magic = 20240801 }), { context = 1 })
    fails("the header says uint16, dtype uint32", tokens, whole, { context = 1, dtype = "uint32" })
    fails("does not begin with a magic number of llm.c", tokens, "abcd", { context = 1, format = "llmc" })
    fails("does not begin with a magic number of llm.c", tokens, "", { context = 1, format = "llmc" })
    fails("1 tokens of 2 bytes expected, 3 bytes are there", tokens, "abc", { context = 1 })
    fails("1 tokens of 4 bytes expected, 6 bytes are there", tokens, "abcdef", { context = 1, dtype = "uint32" })
    fails("^tests/tokens_spec.lua:%d+: data.tokens: .* has 2 tokens; a context of 2 needs at least 3", tokens, "abcd", { context = 2 })
    fails("has 0 tokens", tokens, "", { context = 1 })
  end)

  it("says when a file has shrunk since", function()
    files.with_bytes(pack("<I2", range(0, 99)), function(path)
      local set = data.tokens(path, { context = 10 })
      files.write(path, "ab")
      fails("the file is too short", set.get, 5)
    end)
  end)

  it("refuses what makes no sense", function()
    fails("no/such: cannot be opened: No such file", data.tokens, "no/such", { context = 1 })
    fails("it is no regular file", data.tokens, "tests", { context = 1 })
    fails("context: is required", data.tokens, "x")
    fails('format: expected one of "llmc", "nanogpt"', data.tokens, "x", { context = 1, format = "gpt" })
    fails("at least one file expected", data.tokens, {}, { context = 1 })
    fails("path: expected a string, got 7", data.tokens, 7, { context = 1 })
    local core, file = require "optlua.core", nil
    files.with_bytes("abcd", function(path) file = core.hidden.tokens_open(path, "nanogpt", "uint16") end)
    fails("2 tokens from %-1 on, counted from 0, of", core.hidden.tokens_read, file, optlua.tensor({ -1 }, "int64"), 2)
    fails("of one dimension expected", core.hidden.tokens_read, file, optlua.zeros(1), 2)
    fails("tokens: %-1 of", core.hidden.tokens_read, file, optlua.tensor({ 0 }, "int64"), -1)
    fails("1 tokens from 9223372036854775807 on", core.hidden.tokens_read, file, optlua.tensor({ math.maxinteger }, "int64"), 1)
  end)

  it("survives spoilt files and allocations that fail", function()
    local function use(path) return data.tokens(path, { context = 2 }).get(1) end
    files.fuzz(llmc(range(1, 30)), 2000, use)
    files.fuzz(llmc(range(1, 30), { magic = 20240801, version = 7, form = "<I4" }):sub(1, 12), 500, use)
    files.with_bytes(llmc(range(1, 30)), function(path)
      assert.is_true(files.fail_allocations(function() use(path) end) >= 3)
    end)
  end)
end)
