// The classes of three.js that the page uses; README.md says how three.js is made of them.
export {
  AmbientLight, ArrowHelper, BoxGeometry, BufferGeometry, CanvasTexture, CapsuleGeometry, Color,
  CylinderGeometry, DirectionalLight, Float32BufferAttribute, Fog, Group, HemisphereLight, Matrix4,
  Mesh, MeshBasicMaterial, MeshStandardMaterial, PCFShadowMap, PerspectiveCamera, Plane,
  PlaneGeometry, Raycaster, RepeatWrapping, SRGBColorSpace, Scene, SphereGeometry, Vector2, Vector3,
  WebGLRenderer,
} from "three";
