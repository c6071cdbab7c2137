-- Faults of the file system: calls that fail one after the other, devices and file systems that are full.
local process = require "process"

local library = process.optlua:match "^(.*)/" .. "/test/faults.so"
local here = process.run(".", "pwd").out:gsub("\n", "")

local place
-- In memory where the system lets us: thousands of files are brought to the disk.
before_each(function()
  local made = process.run("/", "mktemp -d -p /dev/shm 2>/dev/null || mktemp -d")
  place = made.out:gsub("\n", "")
end)
after_each(function() process.remove(place) end)

local SCRIPT = [[
local optlua = require "optlua"
return optlua.spec {
  name = "full",
  config = { steps = 40, batch_size = 4, checkpoint_every = 10, optimizer = { class = "AdamW" } },
  build_model = function() return optlua.nn.Linear(4, 3) end,
  build_data = function() return optlua.testing.points { n = 16 } end,
  build_loss = function() return optlua.nn.CrossEntropyLoss() end,
  on_end = function(state) print("made", state.step) end,
}
]]

local function count(text, part) return select(2, text:gsub(part, "")) end

describe("faults of the file system", function()
  it("leave what was there, and nothing else, whichever call fails", function()
    local result = process.run(here, ("mkdir %s/x; LD_PRELOAD=%s optlua tests/faults.lua %s %s/x"):format(place, library, library, place))
    assert.equal("", result.err)
    assert.matches("all is well", result.out)
    local faults = 0
    for number in result.out:gmatch ": (%d+) faults" do faults = faults + tonumber(number) end
    assert.is_true(faults > 500)
    io.write(result.out)
  end)

  it("on a device that is full are said once for each file; the run goes on, and its status tells", function()
    process.write(place .. "/full.lua", SCRIPT)
    local result = process.run(place, "mkdir out; ln -s /dev/full out/log.jsonl; ln -s /dev/full out/log.csv; optlua full.lua --out out")
    assert.equal(1, result.code)
    assert.matches("made%s40", result.out)
    assert.equal(1, count(result.err, "log.jsonl: cannot be written"))
    assert.equal(1, count(result.err, "log.csv: cannot be written"))
    assert.matches("step%-00000040", process.run(place, "ls out/checkpoints").out)
    process.write(place .. "/save.lua", 'require("optlua").nn.Linear(1, 1):save "/dev/full"')
    result = process.run(place, "optlua save.lua")
    assert.equal(1, result.code)
    assert.matches("it is no regular file", result.err)
  end)

  it("on a file system that is full cost no file that was there", function()
    local mount = ("unshare -Urm sh -c 'mkdir -p m && mount -t tmpfs -o size=%s none m && %s'")
    if process.run(place, mount:format("1m", "true")).code ~= 0 then return pending "mounting is not allowed" end
    process.write(place .. "/save.lua", [[
      local optlua = require "optlua"
      local model = optlua.nn.Linear(100, 100)
      local optimizer = optlua.optim.AdamW(model)
      local parts = { model = model, optimizer = optimizer }
      optlua.checkpoint.save("m/a", parts)
      local saved = 0
      for k = 1, 20 do
        optimizer:zero_grad()
        model(optlua.ones { 1, 100 }):sum():backward()
        optimizer:step()
        local ok, problem = pcall(optlua.checkpoint.save, "m/" .. k, parts)
        if ok then saved = k else assert(problem:find "No space left", problem) end
      end
      assert(saved > 0 and saved < 20)
      assert(#optlua.checkpoint.list "m" == saved + 1, #optlua.checkpoint.list "m")
      for _, path in ipairs(optlua.checkpoint.list "m") do assert(#optlua.checkpoint.verify(path) == 0) end
      assert(not io.popen("ls -A m"):read("a"):find "writing")
      print "kept"
    ]])
    local result = process.run(place, mount:format("700k", "optlua save.lua"))
    assert.equal("kept\n", result.out, result.err)
    process.write(place .. "/full.lua", SCRIPT)
    result = process.run(place, mount:format("24k", "optlua full.lua --out m/out"))
    assert.equal(1, result.code, result.err)
    assert.matches("made%s40", result.out)
    assert.matches("No space left", result.err)
  end)

  it("on a pipe that nobody reads do not end a run; its status tells", function()
    process.write(place .. "/full.lua", SCRIPT)
    local result = process.run(place, "{ optlua full.lua --out out --steps=800 --log_every=100; echo $? >status; } | true; cat status")
    assert.equal("1\n", result.out)
    assert.equal("optlua: standard output could not be written\n", result.err)
    assert.matches("last.safetensors.*step%-00000800", process.run(place, "ls out out/checkpoints").out)
  end)
end)
