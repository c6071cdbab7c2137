-- Records: plain values as JSON, and what the one of a checkpoint must have.
local optlua = require "optlua"
local checkpoint = optlua.checkpoint
local fails = require("fails").matching
local process = require "process"
local record = require "optlua.checkpoint.record"

describe("a record", function()
  it("keeps integers, floats of all kinds, words and lists", function()
    local value = { i = 1 << 53, big = math.maxinteger, f = 1.0, tiny = 5e-324, third = 1 / 3, inf = math.huge, low = -math.huge, s = "é\n", l = { 1, { 2 } }, b = false }
    local again = assert(record.decode(record.encode("x", value)))
    assert.same(value, again)
    assert.equal("float", math.type(again.f))
    assert.equal("integer", math.type(again.i))
    local nan = assert(record.decode(record.encode("x", { x = 0 / 0 }))).x
    assert.is_true(nan ~= nan)
  end)

  it("names what cannot be saved", function()
    local function refuses(wanted, value) fails("^x.deep" .. wanted, record.encode, "x", { deep = value }) end
    refuses(": a list with holes cannot be saved", { 1, nil, 3 })
    refuses(": a table with both a list and names cannot be saved", { 1, 2, x = 1 })
    refuses(': a key with a byte 0 cannot be saved: "a\\0b"', { ["a\0b"] = 1 })
    local deepest = { 0 / 0 }
    for _ = 1, 97 do deepest = { a = deepest } end
    assert.is_table((record.decode(record.encode("x", { deep = deepest }))))
    refuses("[.a]+: tables that nest deeper than 99 cannot be saved", { a = deepest })
  end)
end)

describe("the record of a checkpoint", function()
  local place
  before_each(function() place = process.folder() end)
  after_each(function() process.remove(place) end)

  local function change(from, to)
    local text, count = process.read(place .. "/a/run.json"):gsub(from, to)
    assert.equal(1, count, from)
    process.write(place .. "/a/run.json", text)
  end

  it("that was changed is damage, wherever it was", function()
    local model = optlua.nn.Linear(1, 1)
    local function save() checkpoint.save(place .. "/a", { model = model, extra = { step = 7, lr = 0.1 } }) end
    for from, to in pairs { ['"step": 7'] = '"step": 9', ['"lr": 0%.1'] = '"lr": 0.9', ['"checksum": %d'] = '"checksum": 77', ["\n}\n$"] = "\n}\n\n" } do
      save()
      assert.same({}, checkpoint.verify(place .. "/a"))
      change(from, to)
      assert.same({ place .. "/a/run.json: the checksum is another one than when it was written" }, checkpoint.verify(place .. "/a"))
      fails("run.json: the checksum is another one", checkpoint.load, place .. "/a", { model = model })
    end
    save()
    change('"checksum"', '"checksun"')
    fails('unknown field "checksun" %(did you mean "checksum"', checkpoint.load, place .. "/a", { model = model })
    save()
    change(' *"checksum": %d+,\n', "") -- as older versions wrote it
    assert.equal(7, checkpoint.load(place .. "/a", { model = model }).step)
  end)

  it("has fields of their types, or is none", function()
    local function refuses(wanted, from, to)
      checkpoint.save(place .. "/a", { extra = {} })
      change(' *"checksum": %d+,\n', "")
      change(from, to)
      local saved, problem = checkpoint.read(place .. "/a")
      assert.is_nil(saved)
      assert.matches("a/run.json: " .. wanted, problem)
      assert.same({ problem }, checkpoint.verify(place .. "/a"))
    end
    refuses("files: x is none of a checkpoint", '"files": {', '"files": {"x": 3')
    refuses("files: run.json: bytes and crc32 expected", '"files": {', '"files": {"run.json": 3')
    refuses("it has no versions", '"versions": %b{}', '"frozen": {}')
    refuses("date: a string expected, got a number", '"date": "[^"]*"', '"date": 5')
    refuses("it has no files", '"files": %b{}', '"frozen": {}')
  end)
end)
