import type { RequestPaths } from '../request-paths.ts'

/** Where clients of images write settings, and the fields of parts, tools and turns. */
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
