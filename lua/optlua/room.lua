--- room: refuses to load the library where OpenBLAS would hang: see runtime/main/room.c, which does it for the program.
--
-- The numbers are those of runtime/tensor/blas.h, in MiB of address space.
local ROOM, ROOM_A_THREAD = 250, 150

local function line_of(path, pattern)
  local file = io.open(path)
  for line in file and file:lines() or function() end do
    local found = line:match(pattern)
    if found then
      file:close()
      return found
    end
  end
  if file then file:close() end
  return nil
end

local function count_processors()
  local count = 0
  for first, last in (line_of("/proc/self/status", "^Cpus_allowed_list:%s*(.*)") or ""):gmatch "(%d+)%-?(%d*)" do
    count = count + (last == "" and 1 or last - first + 1)
  end
  return math.max(count, 1)
end

if not package.preload["optlua.core"] and not package.loaded["optlua.core"] then
  local bytes = math.tointeger(line_of("/proc/self/limits", "^Max address space%s+(%d+)"))
  if bytes then
    local threads = math.tointeger((os.getenv "OMP_NUM_THREADS" or ""):match "^%s*(%d+)") or count_processors()
    local needed = ROOM + ROOM_A_THREAD * threads
    if bytes >> 20 < needed then
      error(("optlua: ulimit -v allows %d MiB, and OpenBLAS, with threads: %d, would hang with less than %d MiB; raise the limit, or "
        .. "set OMP_NUM_THREADS to fewer"):format(bytes >> 20, threads, needed), 0)
    end
  end
end

return {}
