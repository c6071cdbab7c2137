local process = require "process"
local terminal = require "terminal"

if not terminal.available() then
  pending("the REPL (there are no pseudo terminals)")
  return
end

describe("the REPL", function()
  local folder

  before_each(function() folder = process.folder() end)
  after_each(function() process.remove(folder) end)

  -- Starts optlua and waits for its first prompt.
  local function start(arguments, environment)
    local repl = terminal.open(folder, (environment and environment .. " " or "") .. "optlua " .. (arguments or ""))
    repl:expect("> ")
    return repl
  end

  local function leave(repl)
    repl:send("\4")
    local code, text = repl:close()
    return code, text
  end

  local function history() return process.read(folder .. "/.optlua_history") end

  describe("on a terminal", function()
    it("greets, prints the values of expressions, and ends with the input", function()
      local repl = terminal.open(folder, "optlua")
      assert.is_truthy(repl:expect("\n> "):find("^optlua %d+%.%d+%.%d+ %(Lua 5%.4%.%d+%)\r\n"))
      assert.equal("2", repl:enter("1 + 1"))
      assert.equal("1\tnil\tx", repl:enter("1, nil, 'x'"))
      assert.equal("3", repl:enter("= 3"))
      assert.equal("", repl:enter("x = 5"))
      assert.equal("5", repl:enter("x"))
      assert.equal("", repl:enter("local y = 1"))
      assert.equal("nil", repl:enter("y"))
      assert.equal(0, (leave(repl)))
    end)

    it("continues incomplete lines", function()
      local repl = start()
      repl:enter("for i = 1, 2 do", ">> ")
      repl:enter("print(i)", ">> ")
      assert.equal("1\n2", repl:enter("end"))
      repl:enter("x = [[a", ">> ")
      repl:enter("b]]")
      assert.equal("a\nb", repl:enter("x"))
      assert.equal(0, (leave(repl)))
    end)

    it("reports errors and goes on", function()
      local repl = start()
      assert.is_truthy(repl:enter("error 'boom'"):find("^stdin:1: boom\nstack traceback:\n"))
      assert.equal("stdin:1: unexpected symbol near ')'", repl:enter(")"))
      assert.equal("object", repl:enter("error(setmetatable({}, { __tostring = function() return 'object' end }))"))
      repl:enter("print = error")
      assert.equal("error calling 'print' (1)", repl:enter("1"))
      assert.equal(0, (leave(repl)))
    end)

    it("takes prompts from _PROMPT and _PROMPT2", function()
      local repl = start()
      repl:enter("_PROMPT, _PROMPT2 = 'first: ', 'more: '", "first: ")
      repl:enter("if nil then", "more: ")
      repl:enter("end", "first: ")
      repl:enter("_PROMPT = {}")
      leave(repl)
    end)

    it("cancels a line, and an incomplete chunk, on Ctrl-C", function()
      local repl = start()
      repl:send("print 'never'")
      repl:expect("never'")
      repl:send("\3")
      repl:expect("\n> ")
      assert.equal("1", repl:enter("1"))
      repl:enter("x = {", ">> ")
      repl:send("\3")
      repl:expect("\n> ")
      assert.equal("nil", repl:enter("x"))
      assert.equal(0, (leave(repl)))
    end)

    it("interrupts a running chunk on Ctrl-C", function()
      local repl = start()
      for _ = 1, 2 do
        repl:send("print 'run' .. 'ning' while true do end\n")
        repl:enter("do print('run' .. 'ning') while true do end", ">> ")
        repl:send("end\n")
        repl:expect("running\r\n")
        repl:send("\3")
        assert.is_truthy(repl:expect("\n> "):find("interrupted!\r\nstack traceback:\r\n", 1, true))
      end
      assert.equal("1", repl:enter("1"))
      repl:send("do print 'reading' io.read() end\n")
      repl:expect("\nreading")
      repl:send("\3")
      assert.is_truthy(repl:expect("\n> "):find("interrupted!", 1, true))
      assert.equal(0, (leave(repl)))
    end)

    it("ends with the code of os.exit", function()
      local repl = start()
      repl:send("os.exit(4)\n")
      assert.equal(4, (repl:close()))
    end)

    it("edits lines, in any character set of today", function()
      for _, environment in ipairs { "LC_ALL=C.UTF-8", "LC_ALL=C", "LC_ALL=nowhere", "LC_ALL= LANG=" } do
        local repl = start("-E", environment)
        assert.equal("éXü", repl:enter("'éü'\2\2X"))
        assert.equal("12", repl:enter("2\0011"))
        assert.equal("2", repl:enter("12\1\4"))
        assert.equal("false", repl:enter("('\\xe9'):find '%a' ~= nil"))
        assert.equal(0, (leave(repl)))
      end
    end)

    it("takes key bindings from ~/.editrc, but not with -E", function()
      process.write(folder .. "/.editrc", "optlua:bind -s ^T 1234\n")
      local repl = start()
      assert.equal("1234", repl:enter("\20"))
      leave(repl)
      repl = start("-E -i")
      assert.equal("12", repl:enter("21\20"))
      leave(repl)
    end)

    it("sets optlua and help, if they are free", function()
      process.write(folder .. "/fake.lua", [[
        package.preload.optlua = function() return { name = "library" } end
        package.preload["optlua.doc"] = function() return { print = function(...) print("doc", ...) end } end]])
      local repl = start("-l fake -i")
      assert.equal("library", repl:enter("optlua.name"))
      assert.equal("doc\tAdamW", repl:enter('help "AdamW"'))
      assert.is_truthy(repl:enter("help()"):find('help "NAME"', 1, true))
      assert.is_truthy(repl:enter("help"):find('help "NAME"', 1, true))
      assert.matches("^1\tfunction", repl:enter("1, help"))
      leave(repl)
      repl = terminal.open(folder, "optlua")
      assert.matches("^optlua [%d.]+ %(Lua 5.4.%d+%)\r?\nhelp says what there is, Ctrl%-D leaves\r?\n> $", repl:expect("\n> "))
      leave(repl)
      repl = start([[-e 'optlua, help = 1, 2' -i]])
      assert.equal("1\t2", repl:enter("optlua, help"))
      leave(repl)
      process.write(folder .. "/broken.lua", "package.preload.optlua = function() error('broken\\nlibrary', 0) end")
      repl = terminal.open(folder, "optlua -l broken -i")
      assert.is_truthy(repl:expect("\n> "):find("note: the library is not loaded: broken\r\n> ", 1, true))
      assert.equal("nil", repl:enter("optlua"))
      leave(repl)
    end)

    it("shows what is in tables, one level deep, and objects as they print", function()
      local repl = start()
      assert.equal('{ 1, "a", loss = 0.5, t = { … } }', repl:enter("{ 1, 'a', loss = 0.5, t = { {} } }"))
      assert.equal("{}\t(2, 3)\tReLU()", repl:enter("{}, optlua.zeros(2, 3).shape, optlua.nn.ReLU()"))
      assert.equal("mine", repl:enter("setmetatable({}, { __tostring = function() return 'mine' end })"))
      local long = repl:enter "load 't = {} for k = 1, 120 do t[k] = 999 + k end return t' ()"
      assert.matches("^{\r?\n  1000,\r?\n.*  … and 20 more,\r?\n}", (long))
      leave(repl)
    end)

    it("explains names, and says in one line that there is none", function()
      local repl = start()
      assert.matches("^optim.AdamW%(parameters, options%)\r?\n", (repl:enter 'help "adamw"'))
      assert.equal('doc: nothing is called "Dropuot" (did you mean "dropout"?)', (repl:enter('help "Dropuot"')))
      leave(repl)
    end)

    it("sets no global outside the REPL", function()
      assert.equal("nil\tnil\n", process.run(folder, "optlua -e 'print(optlua, help)'").out)
    end)

    it("follows a script with -i", function()
      process.write(folder .. "/script.lua", "x = ... return 1")
      local repl = start("-i script.lua word")
      assert.equal("word", repl:enter("x"))
      leave(repl)
    end)

    it("reads plain lines from a terminal that cannot edit", function()
      for _, environment in ipairs { "TERM=dumb", "TERM=", "-u TERM" } do
        local repl = start("", environment)
        assert.equal("2", repl:enter("1 + 1"))
        repl:send("\3")
        repl:expect("\n> ")
        assert.equal("3", repl:enter("3"))
        assert.equal(0, (leave(repl)))
      end
      assert.is_nil(io.open(folder .. "/.optlua_history"))
    end)
  end)

  describe("history", function()
    local UP = "\16"

    it("recalls entries of one line and of several", function()
      local repl = start()
      repl:enter("first = 1")
      repl:enter("for i = 1, 2 do", ">> ")
      repl:enter("print(i) end")
      repl:send(UP .. "\n")
      repl:expect("1\r\n2\r\n> ")
      repl:send(UP .. UP .. ", 3\n")
      repl:expect("\n> ")
      leave(repl)
      assert.equal("first = 1\nfor i = 1, 2 do\n\tprint(i) end\nfirst = 1, 3\n", history())
    end)

    it("is kept in a file for the next session, for its owner only", function()
      local repl = start()
      repl:enter("'entry one'")
      leave(repl)
      repl = start()
      repl:enter("x = [[", ">> ")
      repl:enter("\t\\n]]")
      repl:enter("'entry two'")
      leave(repl)
      repl = start()
      assert.equal("entry two", repl:enter(UP))
      repl:send(UP .. UP .. "\n")
      repl:expect("\n> ")
      repl:enter("")
      assert.equal("  \\n", repl:enter("x"))
      leave(repl)
      assert.equal("-rw-------\n", process.run(folder, "ls -l .optlua_history | cut -c 1-10").out)
    end)

    it("leaves out blanks and repetitions", function()
      local repl = start()
      for _, line in ipairs { "1", "1", "", "  ", "  1", "2", "1" } do repl:enter(line) end
      leave(repl)
      assert.equal("1\n2\n1\n", history())
    end)

    it("is written at once, so that os.exit and a second session lose nothing", function()
      local one, two = start(), start()
      one:enter("'one'")
      two:enter("'two'")
      one:send("os.exit()\n")
      one:close()
      two:enter("'three'")
      leave(two)
      assert.equal("'one'\n'two'\nos.exit()\n'three'\n", history())
    end)

    it("uses OPTLUA_HISTORY, and nothing with -E", function()
      local repl = start("", "OPTLUA_HISTORY=mine")
      repl:enter("'mine'")
      leave(repl)
      assert.equal("'mine'\n", process.read(folder .. "/mine"))
      repl = start("-E -i", "OPTLUA_HISTORY=mine")
      repl:enter("'other'")
      leave(repl)
      repl = start("", "OPTLUA_HISTORY=")
      repl:enter("'other'")
      leave(repl)
      assert.equal("'mine'\n", process.read(folder .. "/mine"))
      assert.is_nil(io.open(folder .. "/.optlua_history"))
    end)

    it("does without a file that cannot be", function()
      local long = ("x"):rep(5000)
      for _, environment in ipairs { "OPTLUA_HISTORY=/", "OPTLUA_HISTORY=/nowhere/file", "OPTLUA_HISTORY=" .. long, "OPTLUA_HISTORY=/dev/full", "-u HOME" } do
        local repl = start("", environment)
        repl:enter("'a'")
        assert.equal("a", repl:enter(UP), environment)
        assert.equal(0, (leave(repl)))
      end
    end)

    it("shortens a file that has grown long", function()
      local lines = {}
      for i = 1, 2500 do lines[i] = ("x = %d\n"):format(i) end
      lines[2400] = "y = [[\n\t]]\n"
      process.write(folder .. "/.optlua_history", table.concat(lines))
      leave(start())
      assert.equal(table.concat(lines, "", 1501), history())
    end)
  end)

  describe("completion", function()
    -- Types text and a tabulator; returns the line that results, by running it.
    local function complete(repl, text, rest)
      return repl:enter(text .. "\t" .. (rest or ""))
    end

    local PREPARE = [[
      t = { alpha = 1, alpine = 2, beta = 3, method = function() return 'called' end, _hidden = 4, ['not a name'] = 5, { inner = 6 } }
      base = { inherited = function() return 'inherited' end, shared = 7 }
      middle = setmetatable({ between = function() return 'between' end }, { __index = base })
      object = setmetatable({ own = 8 }, { __index = middle })
      callable = setmetatable({}, { __index = { act = setmetatable({}, { __call = function() return 'acted' end }) } })
      raising = setmetatable({}, { __index = function() error 'raised' end })
      computed = setmetatable({}, { __index = function(_, key) return { found = key } end })
      endless = setmetatable({}, {}) getmetatable(endless).__index = endless
      unique_name, unique_noun = 9, 10]]

    local repl

    before_each(function()
      process.write(folder .. "/prepare.lua", PREPARE)
      repl = start("-i prepare.lua")
    end)
    after_each(function() if repl then leave(repl) end end)

    it("completes globals and keywords", function()
      assert.equal("9", complete(repl, "unique_na"))
      assert.equal("10", complete(repl, "1 and unique_no"))
      assert.equal("1", complete(repl, "retur", " 1"))
      assert.equal("number", complete(repl, "type(tonumbe", "(1))"))
    end)

    it("completes fields, through __index", function()
      assert.equal("1", complete(repl, "t.alph"))
      assert.equal("3", complete(repl, "t.b"))
      assert.equal("8", complete(repl, "object.o"))
      assert.equal("7", complete(repl, "object.sh"))
      assert.equal("3.0", complete(repl, "math.sq", "(9)"))
      assert.equal("6", complete(repl, "t[1].in"))
      assert.equal("key", complete(repl, "computed.key.fo"))
      assert.equal("a1", complete(repl, "'a'..t.alpha"))
    end)

    it("completes methods, of any type", function()
      assert.equal("called", complete(repl, "t:me", "()"))
      assert.equal("inherited", complete(repl, "object:inh", "()"))
      assert.equal("between", complete(repl, "object:be", "()"))
      assert.equal("acted", complete(repl, "callable:a", "()"))
      repl:enter("s = 'x'")
      assert.equal("X", complete(repl, "s:up", "()"))
      assert.is_truthy(complete(repl, "io.stdout:setv", "('no')"):find("true"))
    end)

    it("completes the properties and methods of tensors", function()
      repl:enter("w = optlua.ones({ 2, 3 })")
      assert.equal("2", complete(repl, "w.ndi"))
      assert.is_truthy(complete(repl, "w:permut", "({ 2, 1 })"):find("^tensor"))
      assert.equal("2", complete(repl, "w.shap", "[1]"))
    end)

    it("lists what is possible, once", function()
      repl:send("t.\t")
      local list = repl:expect("> t.")
      repl:send("beta\n")
      repl:expect("\n> ")
      local names = {}
      for name in list:match("\n(.-)\r?\n"):gmatch("%S+") do table.insert(names, name) end
      assert.same({ "alpha", "alpine", "beta", "method" }, names)
      repl:send("t:\t()\n")
      assert.is_truthy(repl:expect("\n> "):find("called", 1, true))
      repl:send("t._\t\n")
      assert.is_truthy(repl:expect("\n> "):find("\n4\r\n", 1, true))
    end)

    it("beeps where there is nothing, and survives errors and cycles", function()
      for _, text in ipairs { "nowhere.x", "raising.field.x", "endless.x", "'unique_na", "-- unique_na", "unique_q", "t[a].x", "1.x", "x[[].y", "t[99999999999999999999].x" } do
        repl:send(text .. "\t")
        repl:expect("\a")
        repl:send("\3")
        repl:expect("\n> ")
      end
      assert.equal("1", repl:enter("1"))
    end)

    it("completes at the cursor and indents at the beginning", function()
      assert.equal("9\t1", repl:enter("unique_na, 1\1\6\6\6\6\6\6\6\6\6\t"))
      repl:enter("x = [[", ">> ")
      repl:enter("\tx]]")
      assert.equal("  x", repl:enter("x"))
    end)
  end)

  describe("on a pipe", function()
    it("is cancelled by SIGINT too", function()
      local result = process.run(folder, [[
        mkfifo input
        env --default-signal=INT optlua -i < input > output & pid=$!
        exec 3> input
        echo 'if x' >&3
        while ! grep -q '>> ' output; do kill -0 $pid || exit 98; sleep 0.02; done
        sleep 0.2
        kill -INT $pid
        sleep 0.2
        echo 'print(7)' >&3
        exec 3>&-
        wait $pid && cat output]])
      assert.equal(0, result.code, result.err)
      assert.is_truthy(result.out:find("> >> \n> 7\n> \n", 1, true), result.out)
    end)
  end)
end)
