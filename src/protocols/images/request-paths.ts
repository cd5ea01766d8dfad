import type { RequestPaths } from '../request-paths.ts'

/** The paths of settings in a request of the images API. */
export const paths: RequestPaths = {
  settings: {
    conversation: ['prompt'],
    outputModalities: ['prompt'],
    imageOutput: ['size', 'quality', 'background', 'output_format', 'output_compression', 'n'],
    'imageOutput.size': ['size'],
    'imageOutput.quality': ['quality'],
    'imageOutput.background': ['background'],
    'imageOutput.format': ['output_format'],
    'imageOutput.compression': ['output_compression'],
    user: ['user'],
    'imageOutput.count': ['n'],
  },
  fields: {},
}
