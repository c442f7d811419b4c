// Loaded before each test file of a run: property tests draw the same cases every time, so that a red run is red again. With
// TEST_SEED they draw others.
import * as fc from 'fast-check'

fc.configureGlobal({ seed: Number(process.env['TEST_SEED'] ?? 20_260_514) })
