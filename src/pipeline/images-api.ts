import type { ProtocolName } from '../generation/request.ts'

/** True for the API whose requests have no conversation: a prompt, for images. */
export const isImagesApi = ({ protocol }: { protocol: ProtocolName }): boolean => protocol === 'images'
