/**
 * `poll.ts PORT`: asks for `/livez` every 5 ms over one connection until the standard input ends. Prints `polling` at
 * the first answer, and at the end the longest time between two answers in milliseconds: about as long was the longest
 * turn of the server's event loop.
 */
import { connect } from 'bun'

const EVERY_MS = 5
const request = `GET /livez HTTP/1.1\r\nhost: 127.0.0.1:${process.argv[2]}\r\n\r\n`

let answeredAt: number | undefined
let longestMs = 0
let isWaiting = false

const socket = await connect({
  hostname: '127.0.0.1',
  port: Number(process.argv[2]),
  socket: {
    data() {
      const now = performance.now()
      if (answeredAt === undefined) console.log('polling')
      else longestMs = Math.max(longestMs, now - answeredAt)
      answeredAt = now
      isWaiting = false
    },
  },
})
setInterval(() => {
  if (isWaiting) return
  isWaiting = true
  socket.write(request)
}, EVERY_MS)
for await (const _ of Bun.stdin.stream()) {
  // Only the end of the input matters.
}
// The answer that has not come yet counts, too.
if (isWaiting && answeredAt !== undefined) longestMs = Math.max(longestMs, performance.now() - answeredAt)
console.log(longestMs)
process.exit(0)
