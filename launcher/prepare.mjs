// For scripts of package.json that go on with `bun`: installs missing packages, and makes `bun` the platform's Bun.
import { installMissing, linkBun } from './install.mjs'

installMissing()
linkBun()
