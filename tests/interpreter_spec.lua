local process = require "process"

describe("the interpreter", function()
  local folder

  setup(function()
    folder = process.folder()
    local function write(name, text) process.write(folder .. "/" .. name, text) end
    write("arg.lua", "for i = -9, 9 do if arg[i] then print(i, i > 0 and arg[i] or '') end end print(select('#', ...), ...)")
    write("mod.lua", "print('loading', ...) return { value = 42 }")
    write("bad.lua", "local x = = 1")
    write("raise.lua", "local function f() error('boom') end\nf()")
    write("init.lua", "print 'init'")
    write("ten.lua", "return 10")
    write("#!", "#!/usr/bin/lua\nprint 'shebang'")
    os.execute("mkdir -p " .. folder .. "/sub/pack")
    write("sub/main.lua", "print(require('sibling'), require('pack'))")
    write("sub/sibling.lua", "return 'sibling'")
    write("sub/pack/init.lua", "return 'pack'")
    write("code.luac", string.dump(function() print "ran" end))
    write("codemod.lua", string.dump(function() return 1 end))
  end)

  teardown(function() process.remove(folder) end)

  local function run(command, input) return process.run(folder, command, input) end

  local function assert_fails(result, code, message)
    assert.equal(code, result.code, result.err)
    assert.is_truthy(result.err:find(message, 1, true), ("%q is not in %q"):format(message, result.err))
  end

  -- Everything that lua5.4 does alike: arguments, and what stdin holds.
  local ALIKE = {
    { "-e 'print(1)'" },
    { "-e 'print(1)' -e 'print(x)' arg.lua a" },
    { "-e'print(1)'" },
    { "-e ''" },
    { "-e 'x=1' -e 'print(x)'" },
    { "-e 'x = = 1'" },
    { "-e 'error()'" },
    { "-e 'error(nil)'" },
    { "-e 'error(42)'" },
    { "-e 'error({})'" },
    { "-e 'error(print, 0)'" },
    { "-e 'error(\"plain\", 0)'" },
    { "-e 'error(setmetatable({}, { __tostring = function() return \"object\" end }))'" },
    { "-e 'error(setmetatable({}, { __tostring = function() return 1 end }))'" },
    { "-e 'error(setmetatable({}, { __tostring = error }))'" },
    { "-e 'local t <close> = setmetatable({}, { __close = function() print \"closed\" end }) error(1)'" },
    { "-e 'os.exit(7)'" },
    { "-e 'os.exit(true, true)'" },
    { "-e 'os.exit(false, true)'" },
    { "-e 'print(collectgarbage \"incremental\")'" },
    { "arg.lua" },
    { "arg.lua a 'b c' '' -e --version" },
    { "-e 'y=1' -W arg.lua a" },
    { "-e 'print(#arg, arg[1])'" },
    { "-e 'arg = { 1, 2 }' arg.lua" },
    { "-e 'arg = nil' arg.lua" },
    { "./sub/../arg.lua a" },
    { "-- arg.lua --" },
    { "-- -" },
    { "- a b", "print(...)" },
    { "-", "print(arg[0], ...)" },
    { "", "print(...) return 5" },
    { "", "" },
    { "-W", "print(...)" },
    { "-W", "warn 'careful'" },
    { "", "warn '@on' warn('a', 'b') warn '@off' warn 'c'" },
    { "-e 'warn [[quiet]]'" },
    { "-l mod -e 'print(mod.value)'" },
    { "-lmod -e 'print(mod.value)'" },
    { "-l g=mod -e 'print(g.value, mod)'" },
    { "-l mod arg.lua a" },
    { "-l nowhere 2>/dev/null" },
    { "bad.lua" },
    { "raise.lua" },
    { "nowhere.lua" },
    { "." },
    { "'#!'" },
    { "-i", "1 + 1\n= 2, 3\nx = 5\nx\nfor i = 1, 2 do\nprint(i) end\nerror 'e'\n)\nnil\n'a'\n" },
    { "-i -e 'x = 1'", "x" },
    { "-i", "_PROMPT, _PROMPT2 = '$ ', '$$ '\nif x then\nend\n" },
    { "-i", "print = nil\n1\n" },
    { "-i", "return 1, 2\nlocal a <const> = 1; return a\n" },
    { "-i arg.lua a", "#arg" },
  }

  -- Names of the program and versions put aside.
  local function neutral(text)
    return (text:gsub("lua5%.4:", "optlua:"):gsub("Lua 5%.4%.%d+ [^\n]*\n", "VERSION\n"):gsub("optlua [%d.]+ %b()\n", "VERSION\n")
      :gsub("builtin: %x+", "builtin: ADDRESS"))
  end

  -- lua5.4 echoes what it reads from a pipe, line by line; we do not.
  local function without_echo(text, input)
    local from = 1
    for line in input:gmatch("[^\n]+") do
      local first, last = text:find(line .. "\n", from, true)
      text = text:sub(1, first - 1) .. text:sub(last + 1)
      from = first
    end
    return text
  end

  for _, case in ipairs(ALIKE) do
    local arguments, input = case[1], case[2]
    it("does as lua does: " .. arguments .. (input and " < " .. input:gsub("\n", "\\n") or ""), function()
      local expected, result = run("lua5.4 " .. arguments, input), run("optlua " .. arguments, input)
      result.err = result.err:gsub("note: the library is not loaded[^\n]*\n", "")
      if arguments:find "^%-i" then expected.out = without_echo(expected.out, input) end
      assert.equal(expected.code, result.code, result.err)
      assert.equal(neutral(expected.out), neutral(result.out))
      assert.equal(neutral(expected.err), neutral(result.err))
    end)
  end

  it("runs LUA_INIT as lua does", function()
    for _, setting in ipairs { "LUA_INIT='print(1)'", "LUA_INIT=@init.lua", "LUA_INIT=1 LUA_INIT_5_4='print(54)'", "LUA_INIT='x ='",
                               "LUA_INIT='error(1)'", "LUA_INIT=@nowhere", "LUA_INIT=@raise.lua", "LUA_INIT='print(arg[0], ...)'", "LUA_INIT=" } do
      for _, arguments in ipairs { "-e 'print(2)'", "arg.lua a", "-E -e 'print(3)'", "-v 2>/dev/null" } do
        local expected = run(("%s lua5.4 %s"):format(setting, arguments))
        local result = run(("%s optlua %s"):format(setting, arguments))
        assert.equal(expected.code, result.code, setting)
        assert.equal(neutral(expected.out):gsub("lua5.4", "optlua"), neutral(result.out))
        assert.equal(neutral(expected.err), neutral(result.err))
      end
    end
  end)

  it("ignores LUA_PATH and LUA_CPATH with -E", function()
    local show = " -e 'print(package.path, package.cpath)'"
    local with = run("LUA_PATH='/mine/?.lua' LUA_CPATH='/mine/?.so' optlua" .. show).out
    assert.is_truthy(with:find("/mine/?.lua", 1, true) and with:find("/mine/?.so", 1, true))
    local without = run("LUA_PATH='/mine/?.lua' LUA_CPATH='/mine/?.so' optlua -E" .. show).out
    assert.is_nil(without:find("/mine/", 1, true))
  end)

  it("looks for modules in the script's folder first", function()
    assert.equal("sibling\tpack\n", run("optlua sub/main.lua | sed 's/\\t[^\\t]*lua//g'").out:gsub("sub/[%w/]*%.lua", ""):gsub("\t+", "\t"))
    assert.equal("sub/?.lua;sub/?/init.lua;", run("echo 'io.write(package.path)' > sub/path.lua; optlua sub/path.lua").out:match("^[^;]*;[^;]*;"))
    assert.equal("./?.lua;./?/init.lua;", run("echo 'io.write(package.path)' > path.lua; optlua path.lua").out:match("^[^;]*;[^;]*;"))
    assert.equal("/?.lua;/?/init.lua;", run("optlua /nowhere.lua; cp path.lua /tmp/path.$$; (cd /; optlua /tmp/path.$$); rm /tmp/path.$$").out
      :gsub("/tmp", ""):match("^[^;]*;[^;]*;"))
  end)

  it("leaves a folder whose name has a meaning in package.path out of it", function()
    local result = run("mkdir -p 'a;b' 'c?d'; cp path.lua 'a;b'; cp path.lua 'c?d'; optlua 'a;b/path.lua'; optlua 'c?d/path.lua'")
    assert.equal(0, result.code)
    assert.is_nil(result.out:find("[ac][;?][bd]/"))
  end)

  it("lets modules in C find Lua's functions", function()
    local core = process.optlua:match "^(.*)/" .. "/lib/optlua/core.so"
    local result = run(("optlua -e 'print(package.loadlib(%q, %q))'"):format(core, "*"))
    assert.equal("true\n", result.out)
  end)

  it("finds its own library from the place of the executable", function()
    local path = process.optlua:match("^(.*)/[^/]+/[^/]+$")
    assert.is_truthy(run("optlua -e 'print(package.path)'").out:find(path, 1, true))
    assert.equal(0, run("optlua -e 'assert(type(require \"optlua.core\") == \"table\")'").code)
    local moved = run(("mkdir -p tree/bin tree/share/lua/5.4/optlua; cp %s tree/bin/; cd /; $OLDPWD/tree/bin/optlua -e 'print(package.path)'")
      :format(process.quote(process.optlua)))
    assert.is_truthy(moved.out:find("/tree/share/lua/5.4/?.lua;", 1, true), moved.out .. moved.err)
  end)

  it("refuses a wrong command line with its usage", function()
    for _, arguments in ipairs { "-x", "-e", "-e -l", "-l", "-vv", "-ix", "-Wx", "-Ex", "--nothing", "--versions", "-E -q" } do
      local result = run("optlua " .. arguments)
      assert_fails(result, 2, "usage: optlua ")
      assert.equal("", result.out)
      assert.is_truthy(result.err:find("'%-[^']*'\n"))
    end
    assert_fails(run "optlua check", 2, "no operand after 'check'\nusage: optlua ")
  end)

  it("shows its usage, its version and its build", function()
    local help = run("optlua --help")
    assert.equal(0, help.code)
    for _, option in ipairs { "-e ", "-i ", "-l ", "-v ", "-E ", "-W ", "-- ", "- ", "--version", "--help", "--doc" } do
      assert.is_truthy(help.out:find("\n  " .. option, 1, true), option)
    end
    local line = run("optlua -v")
    assert.is_truthy(line.out:find("^optlua %d+%.%d+%.%d+ %(Lua 5%.4%.%d+%)\n$"))
    local facts = run("OMP_NUM_THREADS=1 optlua --version")
    for _, fact in ipairs { "optlua %s+%d", "Lua %s+5%.4", "compiler %s+%a+ %d", "BLAS %s+%S", "threads %s+1\n", "instruction set %s+%w",
      "update rules %s+%w" } do
      assert.is_truthy(("\n" .. facts.out):find("\n" .. fact), fact)
    end
    assert.equal("", help.err .. line.err .. facts.err)
  end)

  it("leaves the version of -l NAME-VERSION out of the global's name, as newer Lua does", function()
    process.write(folder .. "/ver-2.lua", "return 'version 2'")
    assert.equal("version 2\tnil\n", run("optlua -l ver-2 -e 'print(ver, _G[\"ver-2\"])'").out)
    assert.equal("version 2\n", run("optlua -l my-name=ver-2 -e 'print(_G[\"my-name\"])'").out)
  end)

  it("says what is wrong with a chunk that the end of the input cuts off", function()
    local result = run("optlua -i", "f(\n")
    assert.equal(0, result.code)
    assert.is_truthy(result.err:find("stdin:1: unexpected symbol near <eof>\n", 1, true))
  end)

  it("fails when the chunk on stdin fails, where lua does not", function()
    assert_fails(run("optlua", "error 'in'"), 1, "optlua: stdin:1: in\nstack traceback:")
    assert_fails(run("optlua", "x = = 1"), 1, "optlua: stdin:1: unexpected symbol near '='")
  end)

  it("runs BLAS for the processor that is there", function()
    local cpu = process.read("/proc/cpuinfo")
    if not cpu:find(" avx2", 1, true) then return pending("this is not an x86-64 processor with AVX2") end
    assert.is_nil(run("optlua --version").out:find("Prescott", 1, true))
    assert.is_truthy(run("OPENBLAS_CORETYPE=Nehalem optlua --version").out:find("Nehalem", 1, true))
    assert.equal("nil\n", run("optlua -e 'print(os.getenv \"OPENBLAS_CORETYPE\")'").out)
  end)

  it("goes on after -v", function()
    assert.is_truthy(run("optlua -v -e 'print(1)'").out:find("^optlua [^\n]*\n1\n$"))
  end)

  it("refuses bytecode, wherever it comes from", function()
    local REFUSAL = "bytecode is refused; load text"
    assert_fails(run "optlua code.luac", 1, "code.luac: " .. REFUSAL)
    assert_fails(run "optlua - < code.luac", 1, "stdin: " .. REFUSAL)
    assert_fails(run "optlua < code.luac", 1, "stdin: " .. REFUSAL)
    assert_fails(run "LUA_INIT=@code.luac optlua -e 1", 1, REFUSAL)
    assert_fails(run [[optlua -e "dofile 'code.luac'"]], 1, "code.luac: " .. REFUSAL)
    assert_fails(run "optlua -l codemod", 1, "error loading module 'codemod' from file './codemod.lua':\n\t./codemod.lua: " .. REFUSAL)
    process.write(folder .. "/loads.lua", [[
      local code = string.dump(function() end)
      local function pieces() local c = code; code = nil return c end
      print(load(code)) print(load(code, "name", "b")) print(load(code, "name", "bt")) print(load("return 1", "name", "b"))
      print(loadfile "code.luac") print(loadfile("code.luac", "b")) print(loadfile("code.luac", "bt"))
      print(load(pieces))]])
    local result = run "optlua loads.lua"
    assert.equal(0, result.code, result.err)
    assert.equal(("nil\t%s\n"):rep(8):format(REFUSAL, REFUSAL, REFUSAL, REFUSAL, "code.luac: " .. REFUSAL, REFUSAL, "code.luac: " .. REFUSAL, REFUSAL),
      result.out)
  end)

  it("loads text as lua does", function()
    process.write(folder .. "/text.lua", [[
      local function show(ok, ...) print(ok, (tostring((...)):gsub("0x%x+", ""))) return ... end
      local function pieces() local i = 0 return function() i = i + 1 return ({ "return ", "1 + ", "x" })[i] end end
      x = 2
      print(load("return x")(), load("return x", "n", "t", { x = 3 })(), load("return x", "n", "bt", nil) ~= nil)
      print(pcall(load("return x", "n", "t", nil)))
      print(load(pieces())(), load(42), load "return ...")
      print(load("x ="), load("x =", "=name"), load("x =", "@file"))
      print(load(function() error "reader" end))
      local once = true
      print(load(function() if once then once = false return 12 end end))
      print(load(function() return {} end))
      print(loadfile "nowhere.lua", loadfile "bad.lua")
      print(loadfile("ten.lua")(), loadfile("ten.lua", "t")(), loadfile("ten.lua", nil, {})(), dofile "ten.lua")
      print(pcall(loadfile("arg.lua", "t", {})))
      show(pcall(load)) show(pcall(load, {})) show(pcall(load, "", {})) show(pcall(load, "", "", {}))
      show(pcall(loadfile, {})) show(pcall(loadfile, "ten.lua", {})) show(pcall(dofile, {}))
      show(pcall(dofile, "nowhere.lua")) show(pcall(dofile, "bad.lua")) show(pcall(dofile, "raise.lua"))
      print(pcall(require, "bad"))
      print(coroutine.wrap(function() return dofile "yield.lua" end)())
      print(require "ten", require "ten", package.loaded.ten)
      package.path = nil
      print(pcall(require, "none"))]])
    process.write(folder .. "/yield.lua", "coroutine.yield('yielded') return 'done'")
    local expected, result = run("lua5.4 text.lua"), run("optlua text.lua")
    assert.equal("", expected.err)
    assert.equal((expected.out:gsub("function: 0x%x+", "function")), (result.out:gsub("function: 0x%x+", "function")))
    assert.equal(0, result.code, result.err)
  end)

  it("reads a script from stdin", function()
    assert.equal("x\n", run("optlua -", "print 'x'").out)
    assert.equal("text\n", run("optlua -e 'print(load(io.read \"a\")())'", "return 'text'").out)
    assert.equal("rest\n", run("optlua ten.lua; optlua -e 'print(io.read())'", "rest\n").out)
  end)

  it("runs what a script returns through __optlua_run, with the script's arguments", function()
    process.write(folder .. "/spec.lua", [[
      return setmetatable({ name = "spec" }, { __optlua_run = function(self, ...) print(self.name, select("#", ...), ...) end }), "more"]])
    assert.equal("spec\t2\ta\t--b=1\n", run("optlua spec.lua a --b=1").out)
    assert.equal("spec\t1\tx\n", run("optlua - x < spec.lua").out)
    assert.equal("spec\t0\n", run("optlua < spec.lua").out)
    process.write(folder .. "/failing.lua", [[
      return setmetatable({}, { __optlua_run = function() error "cannot train" end })]])
    local failing = run("optlua failing.lua")
    assert_fails(failing, 1, "failing.lua:1: cannot train")
    assert_fails(failing, 1, "stack traceback:")
    process.write(folder .. "/plain.lua", "return {}, 1")
    assert.same({ out = "", err = "", code = 0 }, run("optlua plain.lua"))
  end)

  it("runs a command of the library in the place of a script", function()
    process.write(folder .. "/fake.lua", [[
      package.preload["optlua.doc"] = function() return { print = function(...)
        if ... == "Nothing" then error("no entry 'Nothing'", 0) end
        print(arg[0], ...)
      end } end]])
    assert.equal("--doc\tAdamW\n", run("optlua -l fake --doc AdamW").out)
    assert.equal("--doc\tAdamW\t-x\n", run("LUA_INIT=@fake.lua optlua --doc AdamW -x").out)
    assert.same({ out = "", err = "optlua: no entry 'Nothing'\n", code = 1 }, run("optlua -l fake --doc Nothing"))
    assert_fails(run("optlua -- --doc"), 1, "cannot open --doc")
  end)

  it("closes the state at the end", function()
    local object = "X = setmetatable({}, { __gc = function() print 'collected' end }) "
    assert.equal("collected\n", run(("optlua -e %q"):format(object)).out)
    assert.equal("collected\n", run(("optlua -e %q"):format(object .. "error(1)")).out)
    assert.equal("collected\n", run(("optlua -e %q"):format(object .. "os.exit(3, true)")).out)
    assert.equal("", run(("optlua -e %q"):format(object .. "os.exit(3)")).out)
  end)

  it("is not needed: the library loads in a stock lua5.4 and leaves its host as it was", function()
    process.write(folder .. "/host.lua", [[
      local globals = {}
      for name in pairs(_G) do globals[name] = true end
      collectgarbage "incremental"
      local optlua = require "optlua"
      for name in pairs(_G) do assert(globals[name], name) end
      assert(collectgarbage "incremental" == "incremental")
      assert(os.setlocale() == "C" and os.getenv "OPENBLAS_CORETYPE" == nil)
      assert(load(string.dump(function() end)))
      print((optlua.ones({ 2, 3 }) + 1):sum():item())]])
    local stock, ours = run "lua5.4 host.lua", run "optlua -e 'string.dump = function() return [[]] end' host.lua"
    if stock.err:find("ASan runtime", 1, true) then return pending "lua5.4 is built without the sanitizer" end
    assert.same({ out = "12.0\n", err = "", code = 0 }, stock)
    assert.same(stock, ours)
  end)

  it("loads C modules", function()
    assert.same({ out = "1\n", err = "", code = 0 }, run("optlua -e 'print(require(\"lfs\").attributes(\".\", \"mode\") == \"directory\" and 1)'"))
  end)
end)

describe("signals", function()
  local folder

  setup(function() folder = process.folder() end)
  teardown(function() process.remove(folder) end)

  -- Starts a script in the background, waits until it has made the file "ready", runs shell text with
  -- its process id in $pid, and returns how it ended.
  local function interrupt(script, commands)
    process.write(folder .. "/script.lua", script)
    return process.run(folder, ([[
      rm -f ready again pipe
      mkfifo pipe
      env --default-signal=INT optlua script.lua & pid=$!
      await() { while [ ! -e "$1" ]; do kill -0 $pid || exit 98; sleep 0.02; done; }
      await ready
      %s
      wait $pid]]):format(commands))
  end

  local READY = "local function mark(name) io.open(name, 'w'):close() end\n"

  it("SIGINT interrupts a script with a traceback and 130", function()
    local result = interrupt(READY .. "mark 'ready' while true do end", "kill -INT $pid")
    assert.equal(130, result.code)
    assert.is_truthy(result.err:find("^optlua: [^\n]*interrupted!\nstack traceback:\n.*script%.lua:2: in main chunk"), result.err)
  end)

  it("SIGINT runs what is to be closed, and __gc", function()
    local result = interrupt(READY .. [[
      local x <close> = setmetatable({}, { __close = function() print 'closed' end })
      y = setmetatable({}, { __gc = function() print 'collected' end })
      mark 'ready'
      while true do end]], "kill -INT $pid")
    assert.equal(130, result.code)
    assert.equal("closed\ncollected\n", result.out)
  end)

  it("SIGINT interrupts a read", function()
    local result = interrupt(READY .. "mark 'ready' io.open('pipe'):read() print 'after'", "sleep 0.2; kill -INT $pid")
    assert.equal("", result.out)
    assert.is_truthy(result.err:find("interrupted!", 1, true))
  end)

  it("a script may catch it and end well", function()
    local result = interrupt(READY .. "print(pcall(function() mark 'ready' while true do end end))", "kill -INT $pid")
    assert.equal(0, result.code)
    assert.equal("", result.err)
    assert.is_truthy(result.out:find("^false\t.*interrupted!\n$"))
  end)

  it("a second SIGINT kills", function()
    local result = interrupt(READY .. [[
      pcall(function() mark 'ready' while true do end end)
      mark 'again'
      while true do end]], "kill -INT $pid; await again; kill -INT $pid")
    assert.equal(130, result.code)
    assert.is_nil(result.err:find("interrupted!", 1, true))
  end)

  it("SIGINT during the run hook of a spec is 130 too", function()
    local result = interrupt(READY .. "return setmetatable({}, { __optlua_run = function() mark 'ready' while true do end end })", "kill -INT $pid")
    assert.equal(130, result.code)
  end)

  it("a write to a closed pipe ends a script without a word, with the status that a shell has for that", function()
    process.write(folder .. "/long.lua", "for i = 1, 1e7 do print(i) end")
    process.write(folder .. "/failing.lua", "pcall(function() while true do print(1) end end) error 'other'")
    for _, words in ipairs { "-e 'for i = 1, 1e7 do print(i) end'", [[-e "for i = 1, 1e7 do io.write(i, '\n') end"]], "long.lua", "- <long.lua",
      "-i <long.lua" } do
      local result = process.run(folder, ("{ optlua %s; echo $? > code; } | head -n 1"):format(words))
      assert.equal(words:find "-i" and "o" or "1", result.out:sub(1, 1))
      assert.same({ "141\n", "" }, { process.read(folder .. "/code"), result.err })
    end
    for _, words in ipairs { "-e 'print(1)'", "--doc define", "--help", "-v" } do -- all of it fits a buffer
      local result = process.run(folder, ("{ sleep 0.1; optlua %s; echo $? >&2; } | true"):format(words))
      assert.equal("141\n", result.err, words)
    end
    local child = process.run(folder, [[optlua -e "local pipe = io.popen('true', 'w') while true do pipe:write(('x'):rep(1e5)) end"]])
    assert.matches("^optlua: %(command line%):1: write to a closed pipe\nstack traceback:", child.err)
    local other = process.run(folder, "optlua failing.lua | true")
    assert.matches("^optlua: failing.lua:1: other\nstack traceback:", other.err)
  end)

  it("a script may catch that too, and children keep the default", function()
    local caught = process.run(folder, [[optlua -e "
      local ok, message = pcall(function() while true do io.write(('x'):rep(1e5)) end end)
      io.stderr:write(message)" | true]])
    assert.equal("(command line):2: write to a closed pipe", caught.err)
    local child = process.run(folder, [[optlua -e "os.execute 'yes | head -n 1'"]])
    assert.same({ out = "y\n", err = "", code = 0 }, child)
  end)

  it("output that is lost is a failure", function()
    local result = process.run(folder, "optlua -e 'io.write(1)' > /dev/full")
    assert.same({ out = "", err = "optlua: standard output could not be written\n", code = 1 }, result)
    assert.equal(1, process.run(folder, "optlua -e 'io.write(1) os.exit(0)' > /dev/full").code)
  end)
end)
