import { HASHING } from '../src/accounts/passwords.ts'

// In the process of the tests, each hash would take 130 ms of CPU. Processes that they start hash as always.
Object.assign(HASHING, { memoryCost: 1_024, timeCost: 1 })
