-- Made by make_ops.py with PyTorch 2.13.0+cpu: places (from 0) and shapes of doubles in the .bin.
return {
  ["cumsum/1"] = { outputs = {{0,{3,4}}}, grads = {{12,{3,4}}} },
  ["cumsum/2"] = { outputs = {{24,{3,4}}}, grads = {{36,{3,4}}} },
  ["cumsum/3"] = { outputs = {{48,{2,3,4}}}, grads = {{72,{2,3,4}}} },
  ["cumsum/4"] = { outputs = {{96,{}}}, grads = {{97,{}}} },
  ["cumsum/5"] = { outputs = {{98,{3,4}}}, grads = {{110,{3,4}}} },
  ["cumsum/6"] = { outputs = {{122,{3,3}}}, grads = {{131,{3,3}}} },
  ["cumsum/7"] = { outputs = {{140,{3,4}}}, grads = {{152,{3,4}}} },
  ["cumsum/8"] = { outputs = {{164,{0,3}}}, grads = {{164,{0,3}}} },
  ["cumprod/1"] = { outputs = {{164,{3,4}}}, grads = {{176,{3,4}}} },
  ["cumprod/2"] = { outputs = {{188,{3,4}}}, grads = {{200,{3,4}}} },
  ["cumprod/3"] = { outputs = {{212,{2,3,4}}}, grads = {{236,{2,3,4}}} },
  ["cumprod/4"] = { outputs = {{260,{}}}, grads = {{261,{}}} },
  ["cumprod/5"] = { outputs = {{262,{3,4}}}, grads = {{274,{3,4}}} },
  ["cumprod/6"] = { outputs = {{286,{3,3}}}, grads = {{295,{3,3}}} },
  ["cumprod/7"] = { outputs = {{304,{3,4}}}, grads = {{316,{3,4}}} },
  ["cumprod/8"] = { outputs = {{328,{0,3}}}, grads = {{328,{0,3}}} },
}
